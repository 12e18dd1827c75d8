-- Slots that nodes hold of one key. The value is a hash: for each node `count:expires:number:want`, where `expires` is in
-- milliseconds of this server's clock, `number` is that of the node's last question, and `want` is how many slots it could use.
-- Questions may overtake each other; an older one changes nothing.
--
-- A node that lacks slots leaves no others idle: each may keep what it uses, but above `target` it is to use no more, so that the
-- one that lacks them gets its share.
local key, node = KEYS[1], ARGV[1]
local number, want, used = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local max, ttl = tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local own, latest, others, nodes, wanted = 0, -1, 0, 1, {}
local all = redis.call('HGETALL', key)
for at = 1, #all, 2 do
  local count, expires, last, wants = string.match(all[at + 1], '^(%d+):(%d+):(%d+):(%d+)$')
  count, expires, last = tonumber(count), tonumber(expires), tonumber(last)
  if all[at] == node then
    own, latest = count, last
  elseif expires <= now then
    redis.call('HDEL', key, all[at])
  else
    others, nodes = others + count, nodes + 1
    wanted[nodes] = tonumber(wants)
  end
end

-- What other nodes do not want of their share, this one may use.
local share, claimed = math.max(math.floor(max / nodes), 1), 0
for at = 2, nodes do
  claimed = claimed + math.min(wanted[at], share)
end
local target = math.max(max - claimed, 1)

if number > latest then
  -- The requests that hold a slot keep it.
  local kept = math.min(used, own, want)
  own = math.max(math.min(want, max - others, target), kept, 0)
  if want == 0 then
    redis.call('HDEL', key, node)
  else
    redis.call('HSET', key, node, string.format('%.0f:%.0f:%.0f:%.0f', own, now + ttl, number, want))
    redis.call('PEXPIRE', key, ttl)
  end
end
return { own, target }
