-- What all scripts begin with. Times are the server's, in milliseconds since 1970.
local version, leases, clients, topics = unpack(KEYS)
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- Who has a name, whether that lives, and for how long it was claimed.
local function holder(name)
  local client = redis.call('HGET', clients, name)
  local until_ms = redis.call('ZSCORE', leases, name)
  if not client or not until_ms then
    return nil, false, nil
  end
  local id, lease_ms = client:match('^(%x+) (%d+) ')
  return id, tonumber(until_ms) > now_ms, tonumber(lease_ms)
end

-- Gives an entry an id that nobody has, so that it cannot be renewed.
local function void(name, no_id)
  local rest = (redis.call('HGET', clients, name) or ''):match('^%x+( .*)$')
  if rest then
    redis.call('HSET', clients, name, no_id .. rest)
  end
end

-- The reserved topics of an entry, each with the NUL after it.
local function reserved(all)
  local found = ''
  for topic in all:gmatch('[^%z]+') do
    if topic:sub(1, 1) == '\1' then
      found = found .. topic .. '\0'
    end
  end
  return found
end

local function remove(name)
  redis.call('ZREM', leases, name)
  redis.call('HDEL', clients, name)
  redis.call('HDEL', topics, name)
end

-- Says that others have something to see. The number grows, and where the data went back to what it was once, the
-- next number is still one that never was.
local function changed()
  local last = tonumber(redis.call('GET', version)) or 0
  local number = string.format('%.0f', math.max(time[1] * 1000000 + time[2], last + 1))
  redis.call('SET', version, number)
end

local function plain(number)
  return string.format('%.0f', number)
end

