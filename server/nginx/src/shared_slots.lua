-- Slots that nodes hold of one key. The value is a hash: for each node `count:expires:number`, where `expires` is in
-- milliseconds of this server's clock and `number` is that of the node's last question. Questions may overtake each other;
-- an older one changes nothing.
local key, node = KEYS[1], ARGV[1]
local number, want, max, ttl = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local others, own, latest = 0, 0, -1
local all = redis.call('HGETALL', key)
for at = 1, #all, 2 do
  local count, expires, last = string.match(all[at + 1], '^(%d+):(%d+):(%d+)$')
  count, expires, last = tonumber(count), tonumber(expires), tonumber(last)
  if all[at] == node then
    own, latest = count, last
  elseif expires <= now then
    redis.call('HDEL', key, all[at])
  else
    others = others + count
  end
end

if number > latest then
  own = math.max(math.min(want, max - others), 0)
  if want == 0 then
    redis.call('HDEL', key, node)
  else
    redis.call('HSET', key, node, string.format('%.0f:%.0f:%.0f', own, now + ttl, number))
    redis.call('PEXPIRE', key, ttl)
  end
end
return { own, others }
