// The pages are readable without scripts. Each module adds one feature to the HTML.
import "./act.js";
import "./copy.js";
import "./dialog.js";
import "./editor.js";
import "./keys.js";
import "./letter.js";
import "./live.js";
import "./look.js";
import "./places.js";
import "./pop.js";
import "./rows.js";
import "./replays.js";
import "./selection.js";
import "./times.js";
import "./undo.js";
