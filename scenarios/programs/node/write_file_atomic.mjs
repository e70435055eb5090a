import writeFileAtomic from "write-file-atomic";

writeFileAtomic.sync("n.json", JSON.stringify({ n: 2, more: "x".repeat(5000) }));
