-- NAME ID LEASE_MS ENDPOINT TOPICS LEFT_MS: 1, or 0 where another has the name and lives.
local name, id, lease_ms, endpoint, listened, left_ms = unpack(ARGV)
local other, lives = holder(name)
if lives and other ~= id then
  return 0
end
-- Clients that gave their names back long ago.
for _, left in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', plain(now_ms - left_ms))) do
  local all = redis.call('HGET', topics, left)
  if all and all == '\0' .. stored_version(all) then
    remove(left)
  end
end
changed()
redis.call('HSET', clients, name, table.concat({id, lease_ms, endpoint}, ' '))
redis.call('HSET', topics, name, listened)
redis.call('ZADD', leases, plain(now_ms + lease_ms), name)
return 1
