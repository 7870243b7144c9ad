// The other side of jszmq.rs: a socket of jszmq that connects to the address it is given.
'use strict'

const zmq = require('jszmq')

const [kind, address] = process.argv.slice(2)
const socket = zmq.socket(kind)
const text = (frame) => Buffer.from(frame).toString()

socket.on('message', (...frames) => {
    if (text(frames[frames.length - 1]).endsWith('end')) {
        socket.close()
    } else if (kind === 'dealer') {
        socket.send(['echo', ...frames])
    } else {
        console.log(frames.map(text).join('|'))
    }
})
socket.connect(address)
if (kind === 'dealer') {
    socket.send(['hello', 'world'])
} else {
    socket.subscribe('a')
}
