"""The style sheet of the status page, inline and allowed by its hash only."""

import base64
import hashlib

STYLE = """
:root{color-scheme:light dark;--page:#f5f6f8;--card:#fff;--ink:#1b2230;--muted:#566173;--line:#dfe3ea;--link:#1d4fbf;
--fill:#3f74d8;--target:#b5cbf3;--track:#e6e9ef;--mark:#1b2230;--added:#2b7a4b;--removed:#c46a12;
--good:#14653a;--good-bg:#def3e5;--warn:#7a4b00;--warn-bg:#fdeccb;--bad:#a3201a;--bad-bg:#fbe0de;--calm-bg:#e8ebf1}
@media (prefers-color-scheme:dark){:root{--page:#12161d;--card:#1a2029;--ink:#e4e8ee;--muted:#9aa6b6;--line:#2c3542;
--link:#8ab4ff;--fill:#5c8ff0;--target:#33496f;--track:#28303c;--mark:#e4e8ee;--added:#58b57f;--removed:#e2944a;
--good:#84dba6;--good-bg:#173a27;--warn:#f4c976;--warn-bg:#43330f;--bad:#ffa39c;--bad-bg:#4c1f1c;--calm-bg:#2a323e}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:88rem;padding:1rem 1.25rem 2rem;background:var(--page);color:var(--ink);
overflow-wrap:anywhere;font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
a{color:var(--link)}
a:focus-visible,summary:focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:.15rem}
h1{font-size:1.35rem;margin:0}
h2{font-size:1.05rem;margin:0 0 .5rem}
p{margin:.25rem 0}
header{margin-bottom:1rem}
.line{display:flex;flex-wrap:wrap;align-items:center;gap:.4rem .6rem}
.muted,caption,figcaption,footer{color:var(--muted)}
.small{font-size:.85rem}
.headline{font-size:1.15rem;line-height:1.4;padding:.7rem .9rem;border-radius:.5rem;border-left:.35rem solid;
margin:.6rem 0}
.headline.busy{background:var(--calm-bg);color:var(--ink);border-color:var(--fill)}
.calm{color:var(--good)}
.troubles{margin:.6rem 0 0;padding-left:1.1rem}.troubles li{margin:.25rem 0}
.notice{padding:.6rem .8rem;border-radius:.4rem;background:var(--warn-bg);color:var(--warn);margin:.75rem 0}
.notice a{color:inherit}
.notice.bad{background:var(--bad-bg);color:var(--bad)}
section{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.9rem 1rem;margin-bottom:1rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;margin-bottom:1rem;padding:0}
.tile{margin:0;background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.6rem .8rem}
.tile dt{color:var(--muted);font-size:.85rem}
.tile dd{margin:0;font-size:1.35rem;font-variant-numeric:tabular-nums}
.tile dd.note{font-size:.85rem;color:var(--muted)}
.pill{display:inline-block;padding:.05rem .5rem;border-radius:1rem;font-size:.82rem;white-space:nowrap;
background:var(--calm-bg);color:var(--ink)}
.pill.long{white-space:normal}
.good{background:var(--good-bg);color:var(--good)}
.warn{background:var(--warn-bg);color:var(--warn)}
.bad{background:var(--bad-bg);color:var(--bad)}
table{width:100%;border-collapse:collapse;font-size:.9rem}
caption{text-align:left;padding-bottom:.4rem;font-size:.85rem}
th{text-align:left;font-weight:600;color:var(--muted);border-bottom:1px solid var(--line);padding:.3rem .6rem .3rem 0;
vertical-align:bottom;white-space:nowrap}
td,tbody th{border-bottom:1px solid var(--line);padding:.4rem .6rem .4rem 0;vertical-align:top;overflow-wrap:anywhere}
tbody th{font-weight:400;color:var(--ink)}
tbody th:not(.brief){white-space:normal}
tr:last-child td,tbody tr:last-child th{border-bottom:0}
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
th.n,td.n{padding-right:1.4rem}
th.brief{width:1%;white-space:nowrap}
th.bars,td.bars{width:9rem;min-width:8rem}
th.size,td.size{width:15rem}
.size .small{white-space:nowrap}
.meter{display:flex;align-items:center;gap:.5rem;padding-right:.8rem}
.meter .small{min-width:2.6rem;text-align:right;font-variant-numeric:tabular-nums}
th.wide{width:34%}
.sub{display:block;color:var(--muted);font-size:.85rem}
code{font:.92em ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
details summary{cursor:pointer;color:var(--link)}
details ul{margin:.25rem 0 0;padding-left:1.1rem}
section>details{margin-top:.6rem;font-size:.9rem}
dl{margin:.4rem 0 0}
section dt{font-weight:600;overflow-wrap:anywhere}
section dd{margin:0 0 .4rem}
em{color:var(--muted)}
.chips{display:flex;flex-wrap:wrap;gap:.35rem;margin:0 0 .6rem;padding:0;list-style:none}
.bar{display:block;width:100%;height:.55rem;border-radius:.2rem;margin:.3rem 0 .15rem}
.track{fill:var(--track)}.fill{fill:var(--fill)}.high{fill:var(--removed)}.target{fill:var(--target)}
.mark{fill:var(--mark)}.failed{fill:var(--bad)}.added{fill:var(--added)}.removed{fill:var(--removed)}
.pending{fill:var(--removed)}.supply{fill:var(--added)}
.bar.tall{height:1.5rem}
.axis{stroke:var(--muted);stroke-width:1;vector-effect:non-scaling-stroke}
figure{margin:0 0 .9rem}
.plot{display:grid;grid-template-columns:auto minmax(0,1fr);gap:.5rem}
.scale{display:flex;flex-direction:column;justify-content:space-between;color:var(--muted);font-size:.8rem;text-align:right}
.timeline{display:block;width:100%;height:7rem;border-left:1px solid var(--line)}
.ticks{display:flex;justify-content:space-between;color:var(--muted);font-size:.8rem;margin-top:.2rem}
figcaption{font-size:.85rem}
.key{display:inline-block;width:.7rem;height:.7rem;border-radius:.15rem;margin:0 .3rem 0 .5rem}
.key:first-child{margin-left:0}
span.run{background:var(--fill)}span.supply{background:var(--added)}span.pending{background:var(--removed)}
span.coming{background:var(--target)}span.added{background:var(--added)}span.removed{background:var(--removed)}span.failed{background:var(--bad)}
.capacity{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:.25rem 2rem}
footer{font-size:.85rem}
header+nav{margin-bottom:.75rem}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:.3rem 0;list-style:none}
@media (min-width:96rem){body{max-width:118rem}.pair{display:grid;gap:0 1rem;align-items:start;
grid-template-columns:minmax(0,1fr) minmax(0,1fr)}.pair>section{grid-column:1}
.pair>[aria-labelledby=decisions]{grid-column:2;grid-row:1/span 3}}
@media (max-width:44rem){body{padding:.75rem .6rem 1.5rem}section{padding:.75rem .7rem}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table,tbody,caption{display:block;width:100%}
tbody tr{display:grid;grid-template-columns:1fr 1fr;column-gap:.75rem}
tr{border-bottom:1px solid var(--line);padding:.5rem 0}
tr:last-child{border-bottom:0}
td,tbody th,td.n,td.bars,td.size{display:grid;grid-column:1/-1;
grid-template-columns:6.5rem minmax(0,1fr);gap:.5rem;width:100%;min-width:0;border:0;padding:.12rem 0;
text-align:left;white-space:normal}
td.bars{grid-column:auto;grid-template-columns:auto minmax(0,1fr)}
td.empty{display:none}
td::before,tbody th::before{content:attr(data-label);color:var(--muted);font-size:.85rem}
tbody th code{font-weight:600}.timeline{height:5.5rem}.tiles{grid-template-columns:repeat(2,1fr)}}
"""

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
