import Conf from "conf";

new Conf({ cwd: "settings", projectName: "programs" }).set(process.argv[2], 1);
