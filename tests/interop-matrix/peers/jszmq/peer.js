// The peer for jszmq (WebSocket only). Implements the line protocol of ../../README.md.
//
// jszmq's ROUTER prefixes each routing id with a byte: 0 for an id announced by the peer, 1 for a generated id. The
// byte is not part of the id, so announced ids are printed without it, and it is added again for sending.
'use strict'
const http = require('http')
const readline = require('readline')
const zmq = require('jszmq')

const ANNOUNCED = 0
const announcedIds = new Set()
let kind, socket, server, queue, waiting

function open(type, ...settings) {
    const named = Object.fromEntries(settings.map((setting) => setting.split(/=(.*)/s)))
    if (named.mechanism !== 'NULL') throw new Error(`no mechanism ${named.mechanism}`)
    kind = type
    queue = []
    waiting = undefined
    announcedIds.clear()
    socket = zmq.socket(type.toLowerCase())
    if (named.id) socket.options.routingId = Buffer.from(named.id, 'hex').toString()
    socket.on('message', (...frames) => {
        queue.push(incoming(frames))
        if (waiting) waiting()
    })
}

function incoming(frames) {
    const words = frames.map((frame) => frame.toString('hex') || '-')
    if (kind === 'ROUTER' && frames[0][0] === ANNOUNCED) {
        words[0] = words[0].slice(2)
        announcedIds.add(words[0])
    }
    return words
}

function outgoing(words) {
    const frames = words.map((word) => Buffer.from(word === '-' ? '' : word, 'hex'))
    if (kind === 'ROUTER' && announcedIds.has(words[0])) {
        frames[0] = Buffer.concat([Buffer.from([ANNOUNCED]), frames[0]])
    }
    return frames
}

// Node's own HTTP server, because it reports its port and listens on the given address.
function bind(endpoint) {
    const url = new URL(endpoint)
    server = http.createServer()
    return new Promise((done, failed) => {
        server.on('error', failed)
        server.listen(Number(url.port), url.hostname, () => {
            url.port = server.address().port
            socket.bind(url.href, server)
            done([url.href])
        })
    })
}

function receive(milliseconds) {
    if (queue.length) return queue.shift()
    return new Promise((done) => {
        const finish = () => {
            clearTimeout(timer)
            waiting = undefined
            done(queue.shift())
        }
        const timer = setTimeout(finish, Number(milliseconds))
        waiting = finish
    })
}

function close() {
    socket.close()
    if (server) server.close()
    server = undefined
}

const commands = {
    open,
    bind,
    close,
    connect: (endpoint) => socket.connect(endpoint),
    subscribe: (topic) => socket.subscribe(Buffer.from(topic, 'hex')),
    unsubscribe: (topic) => socket.unsubscribe(Buffer.from(topic, 'hex')),
    send: (...words) => socket.send(outgoing(words)),
}

async function answer(line) {
    const [command, ...words] = line.split(' ')
    try {
        if (command === 'recv') return (await receive(...words))?.join(' ').replace(/^/, 'ok ') ?? 'late'
        return ['ok', ...((await commands[command](...words)) ?? [])].join(' ')
    } catch (problem) {
        return `error ${String(problem).replaceAll('\n', ' ')}`
    }
}

async function main() {
    for await (const line of readline.createInterface({ input: process.stdin })) {
        console.log(await answer(line))
    }
    process.exit(0)
}

main()
