// mysql2 against one address: each step's outcome is one line of JSON, which the caller compares between two runs.
import mysql from 'mysql2/promise';
import { Readable } from 'node:stream';

const [host, port] = process.argv.slice(2);
const base = { host, port: Number(port), user: 'app', password: 'app-secret', database: 'onramp_test' };
const opened = [];

async function open(options = {}) {
  const connection = await mysql.createConnection({ ...base, ...options });
  opened.push(connection);
  return connection;
}

function show(label, value) {
  console.log(JSON.stringify([label, value], (_, v) => (typeof v === 'bigint' ? String(v) : v)));
}

async function step(label, action) {
  try {
    show(label, await action());
  } catch (error) {
    show(label, { errno: error.errno, sqlState: error.sqlState, message: error.sqlMessage ?? error.message });
  }
}

const rows = ([result]) => result;

async function textProtocol() {
  const c = await open();
  await step('select', async () => rows(await c.query("SELECT 1 AS a, 'é' AS b, NULL AS c")));
  await step('create', async () => rows(await c.query('CREATE TABLE n (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20), j JSON, d DATETIME(3))')));
  await step('insert', async () => rows(await c.query('INSERT INTO n (v) VALUES (?), (?)', ['x', "it's"])));
  await step('error', async () => rows(await c.query('SELECT * FROM missing')));
  await step('no rows', async () => rows(await c.query('SELECT * FROM n WHERE id = 0')));
  const many = await open({ multipleStatements: true });
  await step('several', async () => rows(await many.query('SELECT 1 AS a; DO 1; SELECT 2 AS b')));
  await step('refused', async () => rows(await c.query('SELECT 1; SELECT 2')));
}

async function executed() {
  const c = await open();
  for (let n = 0; n < 20; n += 1) {
    await step(`execute ${n}`, async () => rows(await c.execute('INSERT INTO n (v, j, d) VALUES (?, ?, ?)', [`row ${n}`, { n }, '2026-01-02 03:04:05.678'])));
    await step(`read ${n}`, async () => rows(await c.execute('SELECT id, v, d, CAST(j AS CHAR) AS j FROM n WHERE id = ?', [n])));
  }
  await step('types', async () => rows(await c.execute('SELECT ? AS a, ? AS b, ? AS c, ? AS d', [1, 'two', null, Buffer.from([0, 255])])));
  await step('wrong count', async () => rows(await c.execute('SELECT ?', [1, 2])));
  await step('error', async () => rows(await c.execute('SELECT * FROM missing WHERE a = ?', [1])));
  await step('big', async () => rows(await c.execute('SELECT LENGTH(?) AS n', ['x'.repeat(1 << 20)])));
  await step('unprepare', async () => { c.unprepare('SELECT * FROM n WHERE id = ?'); return rows(await c.execute('SELECT * FROM n WHERE id = ?', [1])); });
}

async function sharedPrepared() {
  const clients = await Promise.all(Array.from({ length: 3 }, () => open()));
  const results = await Promise.all(clients.flatMap((c, n) => Array.from({ length: 20 }, (_, k) => c.execute('SELECT ? AS client, ? AS n', [n, k]))));
  show('prepared at the same time', results.map(rows));
  await Promise.all(clients.map((c) => c.end()));
}

async function sessions() {
  const c = await open();
  await step('changeUser', async () => { await c.changeUser({ user: 'other', password: 'other-secret', database: 'information_schema' }); return rows(await c.query('SELECT CURRENT_USER() u, DATABASE() d')); });
  await step('changeUser back', async () => { await c.changeUser({ user: 'app', password: 'app-secret', database: 'onramp_test' }); return rows(await c.query('SELECT CURRENT_USER() u, DATABASE() d')); });
  await step('changeUser refused', () => c.changeUser({ user: 'app', password: 'wrong' }));
  const d = await open();
  await step('ping', () => d.ping());
  await step('reset', async () => { await d.query('SET @v = 1'); await d.reset(); return rows(await d.query('SELECT @v v')); });
  await step('thread id', async () => rows(await d.query('SELECT CONNECTION_ID() = ? same', [d.threadId])));
}

async function transactions() {
  const c = await open();
  await c.beginTransaction();
  await step('in transaction', async () => rows(await c.query("UPDATE n SET v = 'changed'")));
  await c.rollback();
  await step('rolled back', async () => rows(await c.query("SELECT COUNT(*) n FROM n WHERE v = 'changed'")));
}

async function streams() {
  const c = await open();
  const stream = c.connection.query('SELECT seq FROM seq_1_to_20000').stream();
  let sum = 0;
  for await (const row of stream) sum += row.seq;
  show('streamed', sum);
  await c.query('CREATE TABLE loaded (a INT, b VARCHAR(20))');
  await step('local infile', async () => rows(await c.query({
    sql: "LOAD DATA LOCAL INFILE 'stream' INTO TABLE loaded FIELDS TERMINATED BY ','",
    infileStreamFactory: () => Readable.from(Array.from({ length: 1000 }, (_, n) => Buffer.from(`${n},row ${n}\n`))),
  })));
}

async function pool() {
  const p = mysql.createPool({ ...base, connectionLimit: 10 });
  const results = await Promise.all(Array.from({ length: 200 }, (_, n) => p.query('SELECT ? AS n', [n])));
  show('pool', results.map((r) => rows(r)[0].n).reduce((a, b) => a + b));
  await p.end();
}

async function refused() {
  await step('wrong password', () => open({ password: 'wrong' }));
  await step('unknown user', () => open({ user: 'nobody', password: 'x' }));
  await step('missing schema', () => open({ database: 'onramp_missing' }));
  await step('forbidden schema', () => open({ database: 'forbidden' }));
}

for (const suite of [textProtocol, executed, sharedPrepared, sessions, transactions, streams, pool, refused]) {
  show('suite', suite.name);
  await suite();
  // Statements prepared by a client hold a backend until it leaves.
  await Promise.allSettled(opened.splice(0).map((c) => c.destroy()));
}
