// Adds one to the number in `n` twice, through the thread pool, under a lock that is a folder.
const fs = require("fs").promises;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
async function addOne() {
  for (;;) {
    try {
      await fs.mkdir("lock");
      break;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
      await pause(50);
    }
  }
  const number = Number(await fs.readFile("n", "utf8"));
  await fs.writeFile("n", `${number + 1}\n`);
  await fs.rmdir("lock");
}
Promise.all([addOne(), addOne()]);
