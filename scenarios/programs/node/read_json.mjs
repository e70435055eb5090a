import fs from "node:fs";

console.log(Object.keys(JSON.parse(fs.readFileSync("n.json", "utf8"))).length);
