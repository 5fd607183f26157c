// The MariaDB connector for Node against one address: each step's outcome is one line of JSON.
import mariadb from 'mariadb';

const [host, port] = process.argv.slice(2);
const base = { host, port: Number(port), user: 'app', password: 'app-secret', database: 'onramp_test', bigIntAsNumber: true };

function show(label, value) {
  console.log(JSON.stringify([label, value], (_, v) => (typeof v === 'bigint' ? String(v) : v)));
}

async function step(label, action) {
  try {
    show(label, await action());
  } catch (error) {
    // The message carries the connection's id: only the server's part is compared.
    show(label, { errno: error.errno, sqlState: error.sqlState, message: error.sqlMessage });
  }
}

const c = await mariadb.createConnection(base);
await step('select', () => c.query("SELECT 1 AS a, 'é' AS b, NULL AS c"));
await step('create', () => c.query('CREATE TABLE m (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20), d DECIMAL(20,5), b BLOB)'));
await step('insert', () => c.query('INSERT INTO m (v, d) VALUES (?, ?)', ['x', '1.5']));
// Commands are written ahead (pipelining is this connector's default).
show('pipelined', await Promise.all(Array.from({ length: 100 }, (_, n) => c.query('SELECT ? AS n', [n]))));
// One bulk command where the server offers it, else one command per row.
await step('batch', async () => [await c.batch('INSERT INTO m (v, d) VALUES (?, ?)', Array.from({ length: 500 }, (_, n) => [`row ${n}`, n]))].flat().reduce((sum, r) => sum + r.affectedRows, 0));
await step('count', () => c.query('SELECT COUNT(*) n, SUM(d) s FROM m'));
for (let n = 0; n < 10; n += 1) await step(`execute ${n}`, () => c.execute('SELECT * FROM m WHERE id = ?', [n]));
await step('error', () => c.query('SELECT * FROM missing'));
await step('execute error', () => c.execute('SELECT * FROM missing WHERE a = ?', [1]));
await step('reset', async () => { await c.query('SET @v = 1'); await c.reset(); return c.query('SELECT @v v'); });
await step('changeUser', async () => { await c.changeUser({ user: 'other', password: 'other-secret', database: 'information_schema' }); return c.query('SELECT CURRENT_USER() u'); });
await step('changeUser back', async () => { await c.changeUser({ user: 'app', password: 'app-secret', database: 'onramp_test' }); return c.query('SELECT CURRENT_USER() u'); });
await step('transaction', async () => { await c.beginTransaction(); await c.query("UPDATE m SET v = 'y'"); await c.rollback(); return c.query("SELECT COUNT(*) n FROM m WHERE v = 'y'"); });
await step('ping', () => c.ping());
await step('connection id', () => c.query('SELECT CONNECTION_ID() = ? same', [c.threadId]));
let streamed = 0;
for await (const row of c.queryStream('SELECT seq FROM seq_1_to_20000')) streamed += row.seq;
show('streamed', streamed);
await c.end();
for (const [label, options] of Object.entries({ wrong: { password: 'wrong' }, missing: { database: 'onramp_missing' }, forbidden: { database: 'forbidden' } })) {
  await step(label, async () => (await mariadb.createConnection({ ...base, ...options })).end());
}
