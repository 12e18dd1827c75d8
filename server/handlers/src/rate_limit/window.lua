-- Counts events in a sliding window. The value is a list: the total, and then `slice:count` for each slice of time
-- with events, the oldest first. Times are microseconds of this server's clock.
local key = KEYS[1]
local slice, window, events = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local want, back, back_slice = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function entry(at)
  local text = redis.call('LINDEX', key, at)
  if not text then return nil end
  local number, count = string.match(text, '^(%d+):(%d+)$')
  return tonumber(number), tonumber(count)
end

local function text(number, count)
  return string.format('%.0f:%.0f', number, count)
end

local function ends(number)
  return (number + 1) * slice - 1 + window
end

local total = tonumber(redis.call('LINDEX', key, 0) or 0)
local last = entry(-1)
if last and last * slice > now + window then
  -- The clock was set back: what was counted would count for too long.
  redis.call('DEL', key)
  total, last = 0, nil
end

if back > 0 then
  local at = -1
  local number, count = entry(at)
  while number and number > back_slice do
    at = at - 1
    number, count = entry(at)
  end
  if number == back_slice then
    back = math.min(back, count)
    total = total - back
    redis.call('LSET', key, at, text(number, count - back))
    redis.call('LSET', key, 0, total)
  end
end

local oldest, count = entry(1)
if oldest and ends(oldest) <= now then
  redis.call('LPOP', key)
  while oldest and ends(oldest) <= now do
    redis.call('LPOP', key)
    total = total - count
    oldest, count = entry(0)
  end
  if oldest then redis.call('LPUSH', key, total) end
end

local granted = math.max(math.min(want, events - total), 0)
local number = math.floor(now / slice)
if last and last > number then number = last end
if granted > 0 then
  total = total + granted
  if not oldest then
    redis.call('RPUSH', key, total, text(number, granted))
  else
    redis.call('LSET', key, 0, total)
    local latest, latest_count = entry(-1)
    if latest == number then
      redis.call('LSET', key, -1, text(number, latest_count + granted))
    else
      redis.call('RPUSH', key, text(number, granted))
    end
  end
  redis.call('PEXPIRE', key, math.ceil((window + slice) / 1000) + 1)
end

local wait = 0
if granted == 0 and want > 0 then
  wait = oldest and math.max(ends(oldest) - now, 1) or 1
end
return { granted, wait, number, 0 }
