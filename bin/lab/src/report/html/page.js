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
  }
  var count = selects.reduce(function (n, select) { return n * (select ? select.length - 1 : 1); }, 1);
  if (count > 4) { selects.forEach(function (select) { if (select) { select.selectedIndex = Math.min(2, select.length - 1); } }); }
  selects.forEach(function (select) { if (select) { select.addEventListener('change', places); } });
  places();
  function step(select, by) {
    if (!select) { return; }
    select.selectedIndex = (select.selectedIndex + by + select.length) % select.length;
    places();
  }

  // Subjects on and off, in all charts at once.
  function toggle(name) {
    all('[data-series]').concat(all('[data-key]')).forEach(function (part) {
      if ((part.dataset.series || part.dataset.key) === name) { part.classList.toggle('off'); }
    });
  }
  all('[data-key]').forEach(function (key) {
    key.setAttribute('tabindex', '0');
    key.setAttribute('role', 'button');
    key.addEventListener('click', function () { toggle(key.dataset.key); });
    key.addEventListener('keydown', function (event) {
      if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); toggle(key.dataset.key); }
    });
  });

  // Texts: of the mark that has focus or the pointer; on lines of every series at the pointer's place.
  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + 'px';
    tip.style.top = Math.max(4, y + box.height + 24 > innerHeight ? y - box.height - 10 : y + 16) + 'px';
  }
  function hide() { tip.hidden = true; all('.near').forEach(function (mark) { mark.classList.remove('near'); }); }
  function name(part) { return part.closest('.series').dataset.series; }
  function points(line) {
    if (!line.points) {
      var tips = line.dataset.tips.split('\n');
      line.points = line.getAttribute('d').slice(1).split('L').map(function (place, at) {
        var xy = place.split(' ');
        return { x: +xy[0], y: +xy[1], text: name(line) + ': ' + tips[at] };
      });
    }
    return line.points;
  }
  function inside(chart, event) {
    var point = chart.createSVGPoint();
    point.x = event.clientX; point.y = event.clientY;
    return point.matrixTransform(chart.getScreenCTM().inverse());
  }
  // Of each series the point that is nearest to the pointer, sideways.
  function nearest(chart, event) {
    var at = inside(chart, event), found = [];
    all('.series:not(.off)', chart).forEach(function (series) {
      var candidates = [];
      all('.line[data-tips]', series).forEach(function (line) { candidates = candidates.concat(points(line)); });
      all('circle', series).forEach(function (circle) {
        candidates.push({ x: +circle.getAttribute('cx'), text: circle.parentNode.getAttribute('aria-label'), mark: circle.parentNode });
      });
      var best = null;
      candidates.forEach(function (one) { if (!best || Math.abs(one.x - at.x) < Math.abs(best.x - at.x)) { best = one; } });
      if (best && Math.abs(best.x - at.x) < 30) { found.push(best); }
    });
    return found;
  }
  all('.chart').forEach(function (chart) {
    chart.addEventListener('pointermove', function (event) {
      hide();
      var bar = event.target.closest('.mark');
      if (bar && bar.querySelector('rect')) { show(bar.getAttribute('aria-label'), event.clientX, event.clientY); return; }
      var found = nearest(chart, event);
      found.forEach(function (one) { if (one.mark) { one.mark.classList.add('near'); } });
      if (found.length) { show(found.map(function (one) { return one.text; }).join('\n'), event.clientX, event.clientY); }
    });
    chart.addEventListener('pointerleave', hide);
    chart.addEventListener('focusin', function (event) {
      var mark = event.target.closest('.mark');
      if (!mark) { return; }
      var box = mark.getBoundingClientRect();
      show(mark.getAttribute('aria-label'), box.left + box.width / 2, box.top + box.height / 2);
    });
    chart.addEventListener('focusout', hide);
    chart.addEventListener('keydown', function (event) {
      var by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], line = event.target;
      if (!by) { return; }
      if (line.dataset.tips) {
        var list = points(line), box = line.getBoundingClientRect();
        line.at = Math.max(0, Math.min(list.length - 1, (line.at === undefined ? -1 : line.at) + by));
        show(list[line.at].text, box.left + box.width * line.at / list.length, box.top);
        event.preventDefault();
        return;
      }
      var marks = all('.series:not(.off) .mark', chart), at = marks.indexOf(line);
      if (at >= 0) { event.preventDefault(); marks[(at + by + marks.length) % marks.length].focus(); }
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
