// proper-lockfile and write-file-atomic, measured by `noclobber bench`, whose line protocol this speaks.
'use strict';
const fs = require('fs');
const path = require('path');
const { createRequire } = require('module');
const readline = require('readline');

const now = () => process.hrtime.bigint();
const say = (text) => fs.writeSync(1, text + '\n');
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// From the caller's folder upwards, or where NODE_PATH says.
const load = (name) => {
  for (const from of [createRequire(path.join(process.cwd(), 'x.js')), require]) {
    try { return from(name); } catch (error) { if (error.code !== 'MODULE_NOT_FOUND') throw error; }
  }
  throw new Error(`no Node package ${name} (npm install ${name}, or --node-modules)`);
};

const writeAll = (text) => {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length;) {
    try { at += fs.writeSync(1, bytes, at); } catch (error) { if (error.code !== 'EAGAIN') throw error; }
  }
};

async function main() {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const hello = JSON.parse((await lines.next()).value);
  if (hello.role === 'serve') return say('none');
  let lockfile, writeFileAtomic;
  try {
    lockfile = load('proper-lockfile');
    writeFileAtomic = load('write-file-atomic');
  } catch (error) {
    return say(`missing ${error.message.split('\n')[0]}`);
  }
  const file = path.join(hello.dir, 'queue.json');
  const fsync = hello.durability !== 'none';
  const taskOf = (id) => ({ id, account: 'a0', params: 'x'.repeat(Math.max(0, hello.task_bytes - 75)), state: 'queued', attempts: 0 });
  let waited = 0n;
  // Its own way to wait is to try again after a while; it gives up by default, so it is told to go on for ever.
  const retries = { forever: true, minTimeout: 10, maxTimeout: 1000, randomize: true };

  const change = async (act) => {
    const start = now();
    const release = await lockfile.lock(file, { retries, realpath: false });
    waited = now() - start;
    try {
      const queue = JSON.parse(fs.readFileSync(file, 'utf8'));
      const result = act(queue.tasks);
      queue.version += 1;
      await writeFileAtomic(file, JSON.stringify(queue), { fsync });
      if (fsync) {
        const folder = fs.openSync(hello.dir, 'r');
        fs.fsyncSync(folder);
        fs.closeSync(folder);
      }
      return result;
    } finally {
      await release();
    }
  };

  if (hello.role === 'fill') {
    const tasks = Array.from({ length: hello.kept }, (_, number) => taskOf(`k-${number}`));
    fs.writeFileSync(file, JSON.stringify({ version: 1, tasks }));
    return say('done');
  }
  if (hello.role === 'read') {
    for (const task of JSON.parse(fs.readFileSync(file, 'utf8')).tasks) say(task.id);
    return say('end');
  }

  const report = [];
  const timed = async (op, act, id) => {
    waited = 0n;
    const start = now();
    let found, done;
    try {
      found = await act();
      done = op === 'claim' && found === undefined ? 'none' : 'ok';
    } catch (error) {
      done = 'fail';
      process.stderr.write(`${op}: ${error.message}\n`);
    }
    report.push(`${op} ${done} ${start} ${waited} ${now()} ${id ?? found ?? '-'}`);
    return found;
  };

  say('ready');
  const [, start, until] = (await lines.next()).value.split(' ').map((word) => (word === 'go' ? word : BigInt(word)));
  const early = start - now();
  if (early > 0n) await sleep(Number(early) / 1e6);
  for (let number = 1; now() < until; number++) {
    const task = taskOf(`${hello.worker}-${number}`);
    await timed('push', () => change((tasks) => { tasks.push(task); }), task.id);
    if (hello.think_us) await sleep(hello.think_us / 1000);
    if (now() >= until) break;
    const id = await timed('claim', () => change((tasks) => {
      const task = tasks.find((task) => task.state === 'queued');
      if (!task) return undefined;
      task.state = 'claimed';
      task.worker = hello.worker;
      return task.id;
    }));
    if (id !== undefined) {
      await timed('complete', () => change((tasks) => {
        const place = tasks.findIndex((task) => task.id === id);
        if (place < 0) throw new Error(`no task ${id}`);
        tasks.splice(place, 1);
      }), id);
    }
    if (hello.think_us) await sleep(hello.think_us / 1000);
  }
  report.push('end', '');
  writeAll(report.join('\n'));
}

main().then(() => process.exit(0), (error) => { process.stderr.write(`${error.stack}\n`); process.exit(1); });
