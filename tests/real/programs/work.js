// A Node.js process with a past: objects, buffers, a worker thread; half
// freed. Prints "ready", then answers each line with "pong"; ends at EOF.
'use strict';
const { Worker } = require('node:worker_threads');
const zlib = require('node:zlib');

const keep = new Map();
for (let i = 0; i < 200000; i++) {
  keep.set(`key-${i}`, { id: i, tags: [`t${i % 97}`, i * 1.5], text: 'x'.repeat(i % 61) });
}
for (let i = 0; i < 200000; i += 2) keep.delete(`key-${i}`);

let buffers = [];
for (let i = 0; i < 3000; i++) buffers.push(Buffer.alloc(9001 + (i % 7) * 1000, i));
buffers = buffers.filter((_, i) => i % 3 === 0);
const big = Buffer.alloc(40000003, 1);
const packed = [];
for (let i = 0; i < 40; i++) packed.push(zlib.gzipSync(big.subarray(0, 500000)));

const worker = new Worker(
  `const { parentPort } = require('node:worker_threads');
   const list = [];
   for (let i = 0; i < 50000; i++) list.push({ i, s: String(i) });
   globalThis.list = list;
   parentPort.on('message', () => {});
   parentPort.postMessage('up');`, { eval: true });

worker.once('message', () => {
  console.log('ready');
  process.stdin.on('data', (text) => {
    for (const _ of String(text).matchAll(/\n/g)) console.log('pong');
  });
  process.stdin.on('end', () => process.exit(keep.size + buffers.length + packed.length > 0 ? 0 : 1));
});
