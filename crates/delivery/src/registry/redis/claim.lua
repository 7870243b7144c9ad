-- NAME ID LEASE_MS ENDPOINT TOPICS LEFT_MS: 1, or 0 where another has the name and lives.
local name, id, lease_ms, endpoint, listened, left_ms = unpack(ARGV)
local other, lives = holder(name)
if lives and other ~= id then
  return 0
end
-- Clients that have been away for long, and listen on nothing or did so only while they lived.
for _, left in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', plain(now_ms - left_ms))) do
  local all = redis.call('HGET', topics, left)
  if all and (all == '\0' .. reserved(all) or all:find('\0\1transient\0', 1, true)) then
    remove(left)
  end
end
changed()
redis.call('HSET', clients, name, table.concat({id, lease_ms, endpoint}, ' '))
redis.call('HSET', topics, name, listened)
redis.call('ZADD', leases, plain(now_ms + lease_ms), name)
return 1
