'use strict';
// Everything from the programs under test is set as text, never as markup.
const scenes = JSON.parse(document.getElementById('data').textContent);
const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
};
const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;
const seconds = (ms) => `${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, '0')}`;

// Words of both texts; the longest common subsequence for short ones, else what is between a common head and tail.
const words = (text) => text.match(/[\p{L}\p{N}_.-]+|\s+|[^\p{L}\p{N}_.\s-]/gu) || [];
function difference(before, after) {
  const a = words(before), b = words(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  const parts = [['same', a.slice(0, head).join('')]];
  if (x.length * y.length > 400000) {
    parts.push(['del', x.join('')], ['ins', y.join('')]);
  } else {
    const width = y.length + 1;
    const best = new Uint16Array((x.length + 1) * width);
    for (let i = x.length - 1; i >= 0; i--) {
      for (let j = y.length - 1; j >= 0; j--) {
        best[i * width + j] = x[i] === y[j]
          ? best[(i + 1) * width + j + 1] + 1
          : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
      }
    }
    let i = 0, j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) { parts.push(['same', x[i]]); i++; j++; }
      else if (j >= y.length || (i < x.length && best[(i + 1) * width + j] >= best[i * width + j + 1])) { parts.push(['del', x[i]]); i++; }
      else { parts.push(['ins', y[j]]); j++; }
    }
  }
  parts.push(['same', a.slice(a.length - tail).join('')]);
  const joined = [];
  for (const [kind, text] of parts) {
    if (text === '') continue;
    if (joined.length && joined[joined.length - 1][0] === kind) joined[joined.length - 1][1] += text;
    else joined.push([kind, text]);
  }
  return joined;
}

const players = [];
let active = null;

class Player {
  constructor(show) {
    this.show = show;
    this.all = false;
    this.file = 0;
    this.picked = false;
    const pivot = show.pivot ? show.pivot[1] : null;
    // Without steps that decide: the last change of a file that more than one worker changed.
    const frames = show.files.length ? show.files[0].frames : [];
    const fought = new Set(frames.map((frame) => frame.by).filter((by) => by !== undefined)).size > 1;
    const last = fought ? frames[frames.length - 1].n : 0;
    this.at = pivot || last || show.steps.length;
    this.anyChosen = show.steps.some((step) => step.chosen);
    this.slider = make('input', { type: 'range', min: 0, max: show.steps.length, value: this.at, 'aria-label': 'step', oninput: () => this.go(Number(this.slider.value)) });
    this.label = make('output');
    const button = (text, label, act) => make('button', { type: 'button', title: label, 'aria-label': label, onclick: act }, text);
    this.allButton = show.steps.some((step) => !step.chosen) && this.anyChosen
      ? make('button', { type: 'button', 'aria-pressed': 'false', onclick: () => this.toggle() }, 'all steps') : null;
    this.sheet = make('div', { class: 'sheet' });
    this.scroll = make('div', { class: 'scroll', tabindex: '0', 'aria-label': 'lanes' }, this.sheet);
    this.side = make('div', { class: 'side' });
    this.node = make('div', { class: 'player', onpointerdown: () => { active = this; }, onfocusin: () => { active = this; } },
      make('div', { class: 'controls' },
        button('«', 'to the start', () => this.go(0)), button('‹', 'one step back', () => this.move(-1)), this.slider,
        button('›', 'one step on', () => this.move(1)), button('»', 'to the end', () => this.go(show.steps.length)), this.label,
        pivot ? make('button', { type: 'button', onclick: () => this.pivot() }, 'deciding steps') : null, this.allButton,
        make('span', { class: 'faint keys' }, make('kbd', {}, '←'), ' ', make('kbd', {}, '→'), ' step  ', make('kbd', {}, 'p'), ' deciding steps  ', make('kbd', {}, 'f'), ' next file')),
      this.scroll, this.side);
    players.push(this);
  }

  visible(step) { return this.all || !this.anyChosen || step.chosen || (this.show.pivot || []).includes(step.n); }

  toggle() {
    this.all = !this.all;
    this.allButton.setAttribute('aria-pressed', String(this.all));
    this.table();
    this.go(this.at);
  }

  // The next step that is shown, or the start, or the end.
  move(by) {
    let at = this.at + by;
    while (at > 0 && at < this.show.steps.length && !this.visible(this.show.steps[at - 1])) at += by;
    this.go(at);
  }

  pivot() {
    if (!this.show.pivot) return;
    const [first, second] = this.show.pivot;
    this.go(this.at === second ? first : second);
  }

  go(at) {
    this.at = Math.max(0, Math.min(this.show.steps.length, at));
    this.slider.value = this.at;
    const step = this.show.steps[this.at - 1];
    this.label.textContent = step ? `step ${step.n} of ${this.show.steps.length}` : 'at the start';
    this.slider.setAttribute('aria-valuetext', this.label.textContent);
    for (const [n, row] of this.rows) {
      row.classList.toggle('now', n === this.at);
      row.classList.toggle('after', n > this.at);
    }
    const row = this.rows.get(this.at);
    if (row) {
      const top = row.offsetTop - this.scroll.clientHeight / 2;
      if (row.offsetTop < this.scroll.scrollTop + 40 || row.offsetTop + row.offsetHeight > this.scroll.scrollTop + this.scroll.clientHeight) this.scroll.scrollTop = top;
    }
    this.panel();
    this.arrows();
  }

  // Who holds a lock just after this step, as far as the owner believes.
  held(n) { return this.show.locks.filter((lock) => lock.from <= n && (lock.to === null || lock.to > n)); }

  table() {
    const { show } = this;
    const moves = show.steps.some((step) => step.time_ms !== show.steps[0].time_ms);
    this.rows = new Map();
    const body = make('tbody');
    for (const step of show.steps) {
      if (!this.visible(step)) continue;
      const cells = show.lanes.map((_, lane) => {
        const holds = this.held(step.n).some((lock) => lock.lane === lane);
        const cell = make('td', { class: holds ? 'held' : null });
        if (lane === step.lane) {
          const version = step.note && /^(reads|writes) v/.test(step.note);
          cell.append(make('span', { class: 'act' }, `${step.op} ${step.path}`), ' ',
            make('span', { class: version ? 'ver' : 'res' }, step.note || step.result));
        }
        return cell;
      });
      const row = make('tr', { onclick: () => this.go(step.n), class: (show.pivot || []).includes(step.n) ? 'pivot' : null, 'data-n': step.n },
        make('td', { class: 'n' }, String(step.n)), moves ? make('td', { class: 'n' }, seconds(step.time_ms)) : null, ...cells);
      this.rows.set(step.n, row);
      body.append(row);
    }
    const head = make('tr', {}, make('th', {}, ''), moves ? make('th', {}, 'time') : null, ...show.lanes.map((name) => make('th', {}, name)));
    this.svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    this.svg.setAttribute('aria-hidden', 'true');
    this.sheet.replaceChildren(make('table', { class: 'lanes' }, make('thead', {}, head), body), this.svg);
  }

  arrows() {
    const svg = (tag, attributes) => {
      const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      return node;
    };
    this.svg.setAttribute('width', this.sheet.scrollWidth);
    this.svg.setAttribute('height', this.sheet.scrollHeight);
    const box = this.sheet.getBoundingClientRect();
    const anchor = (n) => {
      const row = this.rows.get(n);
      const act = row && row.querySelector('.act');
      if (!act) return null;
      const place = act.getBoundingClientRect();
      return { left: place.left - box.left, right: Math.min(place.right, place.left + 160) - box.left, y: place.top - box.top + 9 };
    };
    const nodes = [];
    const pivot = this.show.pivot;
    const draw = (from, to, kind) => {
      const a = anchor(from), b = anchor(to);
      if (!a || !b) return;
      const onward = a.left < b.left;
      const x1 = onward ? a.right + 2 : a.left - 2, x2 = onward ? b.left - 3 : b.right + 3;
      const middle = (x1 + x2) / 2;
      nodes.push(svg('path', { d: `M${x1} ${a.y} C${middle} ${a.y} ${middle} ${b.y} ${x2} ${b.y}`, class: kind }));
      nodes.push(svg('path', { d: `M${x2 + (onward ? -6 : 6)} ${b.y - 4} L${x2} ${b.y} L${x2 + (onward ? -6 : 6)} ${b.y + 4}`, class: kind }));
    };
    for (const [from, to] of this.show.arrows) {
      if (pivot && from === pivot[0] && to === pivot[1]) continue;
      draw(from, to, from === this.at || to === this.at ? 'near' : '');
    }
    if (pivot) draw(pivot[0], pivot[1], 'pivot');
    this.svg.replaceChildren(...nodes);
  }

  // What a file held after a step: the frame, and the one before it. Who empties a file and then fills it replaces what
  // was there before: the empty one between says nothing.
  frames(file, n) {
    let index = 0;
    file.frames.forEach((frame, i) => { if (frame.n <= n) index = i; });
    const now = file.frames[index];
    const empty = (frame) => frame.content !== undefined && this.show.contents[frame.content].size === 0;
    let before = index - 1;
    while (before > 0 && !empty(now) && file.frames[before].by === now.by && empty(file.frames[before])) before--;
    return [now, before >= 0 ? file.frames[before] : null];
  }

  panel() {
    const { show } = this;
    const n = this.at;
    const changed = (file) => n > 0 && file.frames.some((frame) => frame.n === n);
    if (!this.picked) {
      const now = show.files.findIndex(changed);
      const step = show.steps[n - 1];
      const met = step ? show.files.findIndex((file) => step.path === file.path) : -1;
      if (now >= 0) this.file = now; else if (met >= 0) this.file = met;
    }
    const tabs = show.files.map((file, i) => make('button', { type: 'button', role: 'tab', 'aria-selected': String(i === this.file), class: changed(file) ? 'changed' : null, onclick: () => { this.file = i; this.picked = true; this.panel(); } }, file.path));
    const files = make('div', {}, make('h3', {}, n ? `Files after step ${n}` : 'Files at the start'));
    if (show.files.length) {
      files.append(make('div', { class: 'tabs', role: 'tablist' }, ...tabs), ...this.content(show.files[this.file], n));
    } else files.append(make('p', { class: 'faint' }, 'no file contents were recorded'));
    const held = this.held(n);
    const locks = make('div', {}, make('h3', {}, 'Locks'));
    if (held.length) {
      locks.append(make('ul', { class: 'locks' }, ...held.map((lock) => make('li', {}, `${show.lanes[lock.lane]} holds ${lock.name}${lock.shared ? ' (shared)' : ''} since step ${lock.from}`))));
    } else locks.append(make('p', { class: 'faint' }, 'nobody holds a lock'));
    this.side.replaceChildren(files, locks);
  }

  content(file, n) {
    const [now, before] = this.frames(file, n);
    const contents = this.show.contents;
    const author = now.by === undefined ? 'as it was at the start' : `${this.show.lanes[now.by]} at step ${now.n}`;
    if (now.content === undefined) return [make('p', { class: 'faint' }, now.by === undefined ? 'not there yet' : `removed or moved away by ${author}`)];
    const shown = contents[now.content];
    if (shown.size === undefined) return [make('p', { class: 'faint' }, `${author}: too large to be recorded`)];
    const notes = [author, plural(shown.size, 'byte')];
    if (shown.binary) notes.push('not all of it is UTF-8');
    const pre = make('pre', { class: 'content', tabindex: '0' });
    const old = before && before.content !== undefined ? contents[before.content] : null;
    const whole = shown.left_out === undefined;
    if (now.n === n && n > 0 && old && old.size !== undefined && old.left_out === undefined && whole) {
      notes.push(before.by === undefined ? 'against the start' : `against ${this.show.lanes[before.by]}'s of step ${before.n}`);
      for (const [kind, text] of difference(old.text, shown.text)) pre.append(kind === 'same' ? text : make(kind, {}, text));
    } else {
      pre.append(shown.text);
      if (!whole) pre.append(make('span', { class: 'faint' }, `\n… ${plural(shown.left_out, 'byte')} left out …\n`), shown.tail || '');
    }
    if (shown.size === 0) pre.append(make('span', { class: 'faint' }, '(empty)'));
    return [make('p', { class: 'faint' }, notes.join(' · ')), pre];
  }
}

function facts(scene, show) {
  const list = make('dl', { class: 'facts' });
  const add = (name, text, kind) => {
    if (text && text.length) list.append(make('dt', {}, name), make('dd', { class: kind || null }, text));
  };
  add('lost', show.lost.join(', '), 'bad');
  add('executed twice', show.duplicated.join(', '), 'bad');
  show.evidence.forEach((text, i) => list.append(make('dt', {}, i ? '' : 'evidence'), make('dd', {}, text)));
  add('needs', show.needs.join(', '));
  if (show.replay) list.append(make('dt', {}, 'replay'), make('dd', {}, make('code', {}, show.replay)));
  add('fix', show.fix);
  add('more', show.more);
  return list;
}

// One scenario: its head, and the rest once somebody opens it. A page of hundreds is read one by one.
const MANY = 8;
const many = scenes.length > MANY;
function rest(scene) {
  const nodes = [];
  const shown = [];
  // The story first; what the scenario is meant to be comes after what it turned out to be.
  if (scene.story) nodes.push(make('p', { class: 'story' }, scene.story));
  for (const show of scene.anomalies) {
    if (scene.anomalies.length > 1) nodes.push(make('h3', {}, show.kind));
    nodes.push(make('p', { class: 'story' }, show.summary));
    if (show.steps.length) {
      const player = new Player(show);
      shown.push(player);
      nodes.push(player.node);
    }
    nodes.push(facts(scene, show));
  }
  const list = make('dl', { class: 'facts' });
  if (scene.about) list.append(make('dt', {}, 'about'), make('dd', { class: 'about' }, scene.about));
  for (const [label, text] of scene.warnings) list.append(make('dt', {}, label), make('dd', {}, text));
  list.append(make('dt', {}, 'coverage'), make('dd', {}, `${scene.coverage} (${plural(scene.schedules, 'schedule')}, ${scene.seconds.toFixed(2)} s)`));
  if (scene.trace_hash) list.append(make('dt', {}, 'trace hash'), make('dd', { class: 'mono' }, scene.trace_hash));
  nodes.push(list);
  return [nodes, shown];
}
const main = document.getElementById('main');
let opened = 0;
const sections = scenes.map((scene, i) => {
  const expected = scene.expected ? (scene.as_expected ? 'as expected' : `expected: ${scene.expected}`) : '';
  const body = make('div');
  let filled = false;
  const fill = () => {
    if (filled) return;
    filled = true;
    const [nodes, shown] = rest(scene);
    body.append(...nodes);
    for (const player of shown) { player.table(); player.go(player.at); }
    active = active || shown[0] || null;
  };
  const open = !many || (!scene.as_expected && opened < MANY);
  if (open) opened++;
  const fold = make('details', { open, ontoggle: () => { if (fold.open) fill(); } },
    make('summary', { class: 'head' }, make('span', { class: `badge ${scene.tone}` }, scene.verdict), make('h2', { id: `h${i}` }, scene.name), make('span', { class: 'faint' }, expected)), body);
  const section = make('section', { class: 'scene', id: `s${i}`, 'aria-labelledby': `h${i}` }, fold);
  main.append(section);
  if (open) fill();
  return { section, show: () => { fold.open = true; fill(); } };
});
const unexpected = scenes.filter((scene) => !scene.as_expected).length;
document.getElementById('sum').textContent = `${plural(scenes.length, 'scenario')}, ${unexpected ? `${unexpected} not as expected` : 'all as expected'}`;
if (scenes.length > 1) {
  // What has to be looked at comes first.
  const order = scenes.map((_, i) => i).sort((a, b) => scenes[a].as_expected - scenes[b].as_expected || a - b);
  const entries = order.map((i) => {
    const scene = scenes[i];
    const link = make('a', { href: `#s${i}`, onclick: () => sections[i].show() }, make('span', { class: `badge ${scene.tone}` }, scene.verdict), make('span', {}, scene.name), make('span', { class: 'faint' }, scene.as_expected ? '' : 'not as expected'));
    return { i, text: `${scene.verdict} ${scene.name}`.toLowerCase(), item: make('li', {}, link) };
  });
  const index = document.getElementById('index');
  if (many) {
    const narrow = () => {
      const wanted = filter.value.trim().toLowerCase();
      for (const { i, text, item } of entries) {
        const hidden = !text.includes(wanted) || (only.checked && scenes[i].as_expected);
        item.hidden = hidden;
        sections[i].section.hidden = hidden;
      }
    };
    const filter = make('input', { type: 'search', placeholder: 'name or verdict', 'aria-label': 'show only scenarios with this in their name or verdict', oninput: narrow });
    const only = make('input', { type: 'checkbox', onchange: narrow });
    index.append(make('div', { class: 'narrow' }, filter, make('label', {}, only, ' not as expected only')));
  }
  index.append(make('ol', {}, ...entries.map((entry) => entry.item)));
}
// A link into the page opens what it leads to.
const follow = () => {
  const at = /^#s(\d+)$/.exec(location.hash);
  const target = at && sections[Number(at[1])];
  if (target) { target.show(); target.section.scrollIntoView(); }
};
addEventListener('hashchange', follow);
follow();
document.addEventListener('keydown', (event) => {
  const field = event.target.tagName === 'INPUT' && (event.target.type === 'search' || ['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key));
  if (!active || event.ctrlKey || event.metaKey || event.altKey || field) return;
  const act = {
    ArrowLeft: () => active.move(-1), k: () => active.move(-1), ArrowRight: () => active.move(1), j: () => active.move(1),
    Home: () => active.go(0), End: () => active.go(active.show.steps.length), p: () => active.pivot(),
    a: () => active.allButton && active.toggle(),
    f: () => { active.file = (active.file + 1) % Math.max(1, active.show.files.length); active.picked = true; active.panel(); },
  }[event.key];
  if (act) { event.preventDefault(); act(); }
});
addEventListener('resize', () => players.forEach((player) => player.arrows()));
