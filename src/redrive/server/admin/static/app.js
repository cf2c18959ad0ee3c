// The pages work without any of this, for reading. Each module adds one thing to what the HTML says.
import "./act.js";
import "./copy.js";
import "./dialog.js";
import "./keys.js";
import "./letter.js";
import "./live.js";
import "./look.js";
import "./pop.js";
import "./rows.js";
import "./replays.js";
import "./selection.js";
import "./times.js";
import "./undo.js";
