import storage from "node-persist";

await storage.init({ dir: "store" });
const seen = (await storage.getItem("seen")) ?? [];
await storage.setItem("seen", [...seen, process.argv[2]]);
