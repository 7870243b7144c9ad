-- NAME ID...: for each 1, or 0 where another has the name or nobody.
local renewed, revived = {}, false
for at = 1, #ARGV, 2 do
  local id, lives, lease_ms = holder(ARGV[at])
  local is_theirs = id == ARGV[at + 1] and lease_ms
  if is_theirs then
    redis.call('ZADD', leases, plain(now_ms + lease_ms), ARGV[at])
    revived = revived or not lives
  end
  renewed[#renewed + 1] = is_theirs and 1 or 0
end
if revived then
  changed()
end
return renewed
