//! Lua that Redis runs as one step. Every directory is a sorted set with the names in it, those of directories with a
//! slash at the end, and the time of the write as the score: the index of caddy-storage-redis.

/// Writes several values if a guard holds. `ARGV`: the kind of the guard, its key, what it compares; the channel and
/// the message for watches; the score; then for each write `put` or `delete`, the key and the text.
/// Returns `ok`; `refused` and the present text of the first value to put; or `kind` and the key that is in the way.
///
/// Redis does not undo what a script did before an error. All that can fail is checked before the first write: kinds
/// of keys by the script, a full or read-only server by Redis, which refuses the first command that writes.
pub(super) const SAVE: &str = r"
local function kind(key) return redis.call('TYPE', key).ok end
local function text(key)
  if kind(key) ~= 'string' then return false end
  return redis.call('GET', key)
end
local function split(key) return string.match(key, '^(.*)/([^/]*)$') end

local guard, name, wanted = ARGV[1], ARGV[2], ARGV[3]
local holds = guard == 'always'
if guard == 'held' then holds = text(name) == wanted end
if guard == 'absent' then holds = text(name) == false end
if guard == 'same' then
  local present = text(name)
  holds = present ~= false and redis.sha1hex(present) == wanted
end
if not holds then
  for at = 7, #ARGV, 3 do
    if ARGV[at] == 'put' then return {'refused', text(ARGV[at + 1]) or ''} end
  end
  return {'refused', ''}
end

for at = 7, #ARGV, 3 do
  if ARGV[at] == 'put' then
    local key = ARGV[at + 1]
    local own = kind(key)
    if own ~= 'none' and own ~= 'string' then return {'kind', key} end
    local folder = split(key)
    while folder do
      local other = kind(folder)
      if other ~= 'none' and other ~= 'zset' then return {'kind', folder} end
      folder = split(folder)
    end
  end
end

local score = ARGV[6]
for at = 7, #ARGV, 3 do
  if ARGV[at] == 'put' then
    local key = ARGV[at + 1]
    redis.call('SET', key, ARGV[at + 2])
    local folder, entry = split(key)
    while folder do
      if redis.call('ZADD', folder, score, entry) == 0 then break end
      local up, base = split(folder)
      folder, entry = up, base and base .. '/'
    end
  end
end
for at = 7, #ARGV, 3 do
  local key = ARGV[at + 1]
  if ARGV[at] == 'delete' and kind(key) ~= 'zset' then
    redis.call('DEL', key)
    local folder, entry = split(key)
    while folder and kind(folder) == 'zset' do
      redis.call('ZREM', folder, entry)
      if redis.call('EXISTS', folder) == 1 then break end
      local up, base = split(folder)
      folder, entry = up, base and base .. '/'
    end
  end
end
-- A user without the right to publish only makes watches slower.
redis.pcall('PUBLISH', ARGV[4], ARGV[5])
return {'ok', ''}
";

/// The size and the time of each value of `ARGV`, as texts; empty for what is not a value.
pub(super) const SIZES: &str = r"
local found = {}
for at, key in ipairs(ARGV) do
  local size, modified = '', ''
  if redis.call('TYPE', key).ok == 'string' then
    local is_json, value = pcall(cjson.decode, redis.call('GET', key))
    if is_json and type(value) == 'table' and type(value.size) == 'number' then
      size = string.format('%.0f', value.size)
      modified = tostring(value.modified)
    end
  end
  found[2 * at - 1], found[2 * at] = size, modified
end
return found
";

/// The version of each value of `ARGV`; empty for what is not a value.
pub(super) const VERSIONS: &str = r"
local found = {}
for at, key in ipairs(ARGV) do
  found[at] = ''
  if redis.call('TYPE', key).ok == 'string' then
    found[at] = redis.sha1hex(redis.call('GET', key))
  end
end
return found
";

/// Renews the lease `ARGV[1]` of the holder `ARGV[2]` for `ARGV[3]` milliseconds; whether it is still theirs.
pub(super) const RENEW: &str = r"
if redis.call('GET', ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('PEXPIRE', ARGV[1], ARGV[3])
";

/// Ends the lease `ARGV[1]` of the holder `ARGV[2]`.
pub(super) const RELEASE: &str = r"
if redis.call('GET', ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('DEL', ARGV[1])
";
