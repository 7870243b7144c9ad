module pinnace/tests/clients/pebbe

go 1.16

require github.com/pebbe/zmq4 v1.4.0
