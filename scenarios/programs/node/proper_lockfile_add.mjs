import fs from "node:fs";
import lockfile from "proper-lockfile";

const release = await lockfile.lock("n.json", { retries: { retries: 100, minTimeout: 20, maxTimeout: 50 } });
const data = JSON.parse(fs.readFileSync("n.json", "utf8"));
fs.writeFileSync("n.json", JSON.stringify({ ...data, n: data.n + 1, [process.argv[2]]: true }));
await release();
