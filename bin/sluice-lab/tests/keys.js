// Presses the keys of a report in a browser and writes what came of it into the page: a line for each, `ok` or `WRONG`.
addEventListener('load', function () {
  var out = [];
  function key(target, name) { target.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true})); }
  function say(what, ok) { out.push((ok ? 'ok ' : 'WRONG ') + what); }
  try {
    var root = document.documentElement, tip = document.getElementById('tip');
    key(document.body, 't'); say('t goes to light', root.dataset.theme === 'light');
    key(document.body, 't'); say('t goes to dark', root.dataset.theme === 'dark');
    key(document.body, 't'); say('t goes back', !root.dataset.theme);
    var level = document.getElementById('level'), test = document.getElementById('test');
    if (level) { var was = level.selectedIndex; key(document.body, ']'); say('] next level', level.selectedIndex === (was + 1) % level.length);
      var hidden = Array.from(document.querySelectorAll('[data-level]')).every(function (p) { var w = level.value; return !w || p.hidden === (p.dataset.level !== w) || p.hidden; });
      say('places follow', hidden); key(document.body, '['); say('[ back', level.selectedIndex === was); }
    if (test) { var wt = test.selectedIndex; key(document.body, '.'); say('. next test', test.selectedIndex === (wt + 1) % test.length); key(document.body, ','); say(', back', test.selectedIndex === wt); }
    Array.from(document.querySelectorAll('[hidden]')).forEach(function (p) { if (p !== tip) p.hidden = false; });
    var charts = Array.from(document.querySelectorAll('.chart')), moved = 0, along = 0, texts = {};
    charts.forEach(function (chart, n) {
      chart.focus();
      say('chart ' + n + ' has focus', document.activeElement === chart);
      key(chart, 'ArrowRight'); var first = tip.textContent; var shown = !tip.hidden && document.querySelectorAll('.ring').length === 1;
      say('chart ' + n + ' right: ' + first.slice(0, 60), shown && first.length > 3 && !/NaN|undefined|Infinity/.test(first));
      key(chart, 'ArrowRight'); if (tip.textContent !== first) moved++;
      var second = tip.textContent;
      key(chart, 'ArrowDown'); if (tip.textContent !== second) along++;
      say('chart ' + n + ' down: ' + tip.textContent.slice(0, 60), !/NaN|undefined|Infinity/.test(tip.textContent));
      key(chart, 'End'); say('chart ' + n + ' end: ' + tip.textContent.slice(0, 60), !/NaN|undefined|Infinity/.test(tip.textContent));
      key(chart, 'Home'); key(document.body, 'Escape'); say('chart ' + n + ' escape', tip.hidden && !document.querySelector('.ring'));
    });
    say('marks moved in ' + moved + ' of ' + charts.length, moved > charts.length / 2);
    say('subjects changed in ' + along + ' of ' + charts.length, along > charts.length / 3);
    var k = document.querySelector('button[data-key]');
    if (k) { k.click(); say('button off', k.getAttribute('aria-pressed') === 'false' && document.querySelectorAll('[data-series="' + k.dataset.key + '"]:not(.off)').length === 0); k.click(); say('button on', k.getAttribute('aria-pressed') === 'true'); }
  } catch (error) { out.push('WRONG ' + error.stack); }
  var pre = document.createElement('pre'); pre.id = 'keys-told'; pre.textContent = out.join('\n'); document.body.appendChild(pre);
});
