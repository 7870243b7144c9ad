-- NAME ID LEASE_MS ENDPOINT TOPICS: 1, or 0 where another has the name and lives.
local name, id, lease_ms, endpoint, listened = unpack(ARGV)
local other, lives = holder(name)
if lives and other ~= id then
  return 0
end
changed()
redis.call('HSET', clients, name, table.concat({id, lease_ms, endpoint}, ' '))
redis.call('HSET', topics, name, listened)
redis.call('ZADD', leases, plain(now_ms + lease_ms), name)
return 1
