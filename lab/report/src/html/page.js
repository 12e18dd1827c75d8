(function () {
  'use strict';
  var all = function (what, within) { return Array.from((within || document).querySelectorAll(what)); };
  var root = document.documentElement, tip = document.getElementById('tip');

  // Theme: as the system says, light, dark. Remembered where the browser lets a file remember.
  var themes = ['', 'light', 'dark'], button = document.getElementById('theme');
  var remembered = '';
  try { remembered = localStorage.getItem('sluice-lab-theme') || ''; } catch (error) { remembered = ''; }
  function theme(name) {
    if (name) { root.dataset.theme = name; } else { delete root.dataset.theme; }
    button.textContent = 'theme: ' + (name || 'system');
    try { localStorage.setItem('sluice-lab-theme', name); } catch (error) { /* not from a file, then */ }
  }
  function nextTheme() { theme(themes[(themes.indexOf(root.dataset.theme || '') + 1) % 3]); }
  theme(themes.indexOf(remembered) < 0 ? '' : remembered);
  button.addEventListener('click', nextTheme);

  // Places: one test, one level, or all.
  var selects = ['test', 'level'].map(function (id) { return document.getElementById(id); });
  function places() {
    all('[data-test],[data-level]').forEach(function (part) {
      part.hidden = ['test', 'level'].some(function (name, at) {
        var wanted = selects[at] && selects[at].value, own = part.dataset[name];
        return wanted && own !== undefined && own !== wanted;
      });
    });
    all('section').forEach(function (section) {
      var parts = all('figure', section);
      if (parts.length) { section.hidden = parts.every(function (part) { return part.hidden; }); }
    });
    scrollable();
  }
  // A table wider than the page is scrolled by keys, too.
  function scrollable() {
    all('.wide,pre').forEach(function (box) {
      if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) { box.tabIndex = 0; } else { box.removeAttribute('tabindex'); }
    });
  }
  var count = selects.reduce(function (n, select) { return n * (select ? select.length - 1 : 1); }, 1);
  if (count > 4) { selects.forEach(function (select) { if (select) { select.selectedIndex = Math.min(2, select.length - 1); } }); }
  selects.forEach(function (select) { if (select) { select.addEventListener('change', places); } });
  places();
  addEventListener('resize', scrollable);
  function step(select, by) {
    if (!select) { return; }
    select.selectedIndex = (select.selectedIndex + by + select.length) % select.length;
    places();
  }

  // Subjects on and off, in all charts at once.
  function toggle(name) {
    all('[data-series],[data-key]').forEach(function (part) {
      if ((part.dataset.series || part.dataset.key) !== name) { return; }
      var off = part.classList.toggle('off');
      if (part.tagName === 'BUTTON') { part.setAttribute('aria-pressed', String(!off)); }
    });
  }
  all('.chart .key').forEach(function (key) { key.dataset.key = key.textContent.slice(2); });
  all('[data-key]').forEach(function (key) { key.addEventListener('click', function () { toggle(key.dataset.key); }); });

  // Numbers as the tables write them.
  function number(value) {
    var size = Math.abs(value);
    if (size >= 100 || Math.abs(value - Math.round(value)) < 1e-9) { return Math.round(value).toLocaleString('en-US'); }
    return value.toFixed(size >= 10 ? 1 : 2);
  }
  var units = {
    'ms': function (v) { return v >= 1000 ? number(v / 1000) + ' s' : v >= 1 || v === 0 ? number(v) + ' ms' : number(v * 1000) + ' µs'; },
    '/s': function (v) { return number(v) + '/s'; }, 'share': function (v) { return number(v * 100) + ' %'; },
    'us': function (v) { return number(v) + ' µs'; }, '%': function (v) { return number(v) + ' %'; },
    'MiB': function (v) { return number(v) + ' MiB'; }, 's': function (v) { return v.toFixed(1) + ' s'; }, 'n': number,
    'p': function (v) { return v < 0.0005 ? 'min' : 'p' + String(+(v * 100).toFixed(v > 0.999 ? 3 : 1)); }
  };
  // What a place on an axis stands for, in words.
  function axis(text) {
    var part = text.split(' '), from = +part[1], to = +part[2], low = +part[3], high = +part[4], unit = units[part[5]];
    return function (place) {
      var share = (place - from) / (to - from);
      if (part[0] === 'log') { return unit(low * Math.pow(high / low, share)); }
      if (part[0] === 'tail') { return unit(1 - Math.pow(10, -share * high)); }
      return unit(low + share * (high - low));
    };
  }

  // A chart as a list of series of points: where they are and what they say.
  function line(path, x, y) {
    var found = path.getAttribute('d').match(/-?[\d.]+/g).map(Number), points = [], px = 0, py = 0;
    for (var at = 0; at < found.length; at += 2) {
      px += found[at]; py += found[at + 1];
      points.push({ x: px, y: py, text: x(px) + ' ' + y(py) });
    }
    return points;
  }
  function model(chart) {
    if (chart.model) { return chart.model; }
    if (chart.dataset.heat) { chart.model = [{ part: chart, points: heat(chart) }]; return chart.model; }
    var x = axis(chart.dataset.x), y = axis(chart.dataset.y);
    chart.model = all('.series', chart).map(function (series) {
      var marks = all('[data-t]', series), points = marks.map(function (mark) {
        var box = mark.getBBox();
        return { x: box.x + box.width / 2, y: mark.tagName === 'circle' ? box.y + box.height / 2 : box.y, text: mark.dataset.t };
      });
      if (!marks.length) { points = line(series.querySelector('.line'), x, y); }
      points.forEach(function (point) { point.text = series.dataset.series + ': ' + point.text; });
      return { part: series, points: points };
    });
    return chart.model;
  }
  // Steps of a map double every two, from one microsecond on.
  function stepMs(at) { return at < 1 ? 0 : Math.pow(2, (at - 1) >> 1) * ((at - 1) % 2 ? 1.5 : 1) / 1000; }
  function heat(chart) {
    var part = chart.dataset.heat.split(' ').map(Number), group = chart.querySelector('.warm'), points = [];
    var move = group.getAttribute('transform').match(/-?[\d.]+/g).map(Number);
    all('path', group).forEach(function (path) {
      var s = +path.dataset.s, bound = function (at) { return Math.pow(1 + part[3], at / part[1]) - 1; };
      var least = Math.max(1, Math.ceil(bound(s))), most = Math.max(least, Math.floor(bound(s + 1)));
      var found = path.getAttribute('d').match(/[\d.]+/g).map(Number);
      for (var at = 0; at < found.length; at += 3) {
        for (var n = 0; n < found[at + 2]; n += 1) {
          var column = found[at] + n, row = found[at + 1] + part[2];
          points.push({
            column: column, row: row, x: move[0] + (column + 0.5) * move[2], y: move[1] + found[at + 1] * move[3],
            text: units.s(column * part[0] / 1000) + ': ' + (least === most ? number(least) : number(least) + ' to ' + number(most)) +
              (most === 1 ? ' response' : ' responses') + ' in ' + units.ms(stepMs(row)) + ' to ' + units.ms(stepMs(row + 1))
          });
        }
      }
    });
    points.sort(function (a, b) { return a.column - b.column || a.row - b.row; });
    return points;
  }
  function shown(chart) { return model(chart).filter(function (series) { return !series.part.classList.contains('off') && series.points.length; }); }

  // Texts: of what is under the pointer, or where the arrow keys are.
  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + 'px';
    tip.style.top = Math.max(4, y + box.height + 24 > innerHeight ? y - box.height - 10 : y + 16) + 'px';
  }
  function hide() { tip.hidden = true; all('.ring').forEach(function (ring) { ring.remove(); }); }
  function ring(chart, point) {
    var circle = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
    circle.setAttribute('class', 'ring');
    circle.setAttribute('cx', point.x); circle.setAttribute('cy', point.y); circle.setAttribute('r', 5);
    chart.appendChild(circle);
  }
  function inside(chart, event) {
    var point = chart.createSVGPoint();
    point.x = event.clientX; point.y = event.clientY;
    return point.matrixTransform(chart.getScreenCTM().inverse());
  }
  function closest(points, away) {
    return points.reduce(function (best, one) { return !best || away(one) < away(best) ? one : best; }, null);
  }
  all('.chart').forEach(function (chart) {
    chart.setAttribute('tabindex', '0');
    chart.setAttribute('role', 'group');
    chart.setAttribute('aria-label', chart.querySelector('.title').textContent);
    chart.addEventListener('pointermove', function (event) {
      hide();
      var at = inside(chart, event), found = [];
      if (event.target.dataset.t && event.target.tagName === 'path') {
        show(event.target.closest('.series').dataset.series + ': ' + event.target.dataset.t, event.clientX, event.clientY);
        return;
      }
      shown(chart).forEach(function (series) {
        var flat = !chart.dataset.heat;
        var best = closest(series.points, function (one) { return Math.abs(one.x - at.x) + (flat ? 0 : 3 * Math.abs(one.y - at.y)); });
        var near = flat ? Math.abs(best.x - at.x) < 30 : Math.abs(best.x - at.x) < 12 && Math.abs(best.y - at.y) < 8;
        if (near) { found.push(best); ring(chart, best); }
      });
      if (found.length) { show(found.map(function (one) { return one.text; }).join('\n'), event.clientX, event.clientY); }
    });
    chart.addEventListener('pointerleave', hide);
    chart.addEventListener('blur', hide);
    chart.addEventListener('keydown', function (event) {
      var across = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key], along = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      var list = shown(chart);
      if (!(across || along) || !list.length) { return; }
      event.preventDefault();
      var at = chart.at || { series: 0, point: -1 }, points = list[Math.min(at.series, list.length - 1)].points;
      if (along && chart.dataset.heat) {
        at.point -= along;
      } else if (along) {
        var x = points[Math.max(0, at.point)].x;
        at.series = (at.series + along + list.length) % list.length;
        points = list[at.series].points;
        at.point = points.indexOf(closest(points, function (one) { return Math.abs(one.x - x); }));
      } else if (chart.dataset.heat && at.point >= 0 && Math.abs(across) === 1) {
        var here = points[at.point];
        var next = points.filter(function (one) { return (one.column - here.column) * across > 0; });
        at.point = next.length ? points.indexOf(closest(next, function (one) { return Math.abs(one.column - here.column) * 100 + Math.abs(one.row - here.row); })) : at.point;
      } else {
        at.point += across;
      }
      at.point = Math.max(0, Math.min(points.length - 1, at.point));
      at.series = Math.min(at.series, list.length - 1);
      chart.at = at;
      hide();
      var box = chart.getBoundingClientRect(), point = points[at.point], scale = box.width / chart.viewBox.baseVal.width;
      ring(chart, point);
      show(point.text, box.left + point.x * scale, box.top + point.y * scale);
    });
  });

  // A link to a cell opens it.
  function open() {
    var part = location.hash && document.getElementById(location.hash.slice(1));
    if (part && part.tagName === 'DETAILS') { part.hidden = false; part.open = true; part.scrollIntoView(); }
  }
  addEventListener('hashchange', open);
  open();

  document.addEventListener('keydown', function (event) {
    if (event.ctrlKey || event.altKey || event.metaKey || /^(SELECT|INPUT)$/.test(event.target.tagName)) { return; }
    if (event.key === 't') { nextTheme(); }
    if (event.key === '[' || event.key === ']') { step(selects[1], event.key === ']' ? 1 : -1); }
    if (event.key === ',' || event.key === '.') { step(selects[0], event.key === '.' ? 1 : -1); }
    if (event.key === 'Escape') { hide(); }
  });
}());
