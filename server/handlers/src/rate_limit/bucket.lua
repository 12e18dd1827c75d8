-- A bucket of tokens. The value is the time at which it is full again (the generic cell rate algorithm), in tokens
-- rather than microseconds: sums of whole tokens are exact. `pace` is tokens per microsecond of this server's clock.
local key = KEYS[1]
local pace, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local want, back = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = (time[1] * 1000000 + time[2]) * pace

local full = tonumber(redis.call('GET', key) or now) or now
-- Later than a whole burst takes: the clock was set back.
if full < now or full > now + burst + 1 then full = now end
if back > 0 then full = math.max(full - back, now) end

-- A ten-thousandth of a token is the rounding of times.
local granted = math.min(want, math.floor(burst - (full - now) + 0.0001))
if granted > 0 then full = full + granted else granted = 0 end
if granted > 0 or back > 0 then
  local expires = math.ceil((full - now) / pace / 1000) + 1
  redis.call('SET', key, string.format('%.17g', full), 'PX', string.format('%.0f', expires))
end

local wait = 0
if granted == 0 and want > 0 then
  wait = math.max(math.ceil((full + 1 - now - burst) / pace), 1)
end
return { granted, wait, 0, math.floor(math.max((full - 1 - now) / pace, 0)) }
