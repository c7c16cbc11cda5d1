"""How the page of what is fed looks."""

STYLE = """
.fed { background: var(--card); border: 1px solid var(--line); border-radius: .7rem; padding: 1.1rem 1.3rem 1.3rem;
  margin: 1.6rem 0 0; }
.fed h2 { margin: 0; font-size: 1.05rem; overflow-wrap: anywhere; } .fed h3 { font-size: .875rem; font-weight: 600;
  color: var(--soft); margin: .9rem 0 .5rem; }
.n { display: inline-block; min-width: 1.6rem; padding: 0 .35rem; border-radius: .8rem; background: var(--mark);
  color: var(--card); font: 600 .85rem/1.6rem system-ui, sans-serif; text-align: center; margin-right: .3rem; }
.classes { margin: .5rem 0 .9rem; } .small { font-size: .875rem; }
.class { display: inline-block; border: 1.5px solid var(--mark); color: var(--mark); border-radius: 1rem;
  padding: .05rem .7rem; margin: 0 .4rem .3rem 0; font-size: .9rem; font-weight: 600; }
.px { background-image: var(--img); image-rendering: pixelated; background-repeat: no-repeat; }
@media (prefers-color-scheme: dark) { .px { background-image: var(--dark, var(--img)); } }
.whole { display: grid; width: 100%; aspect-ratio: var(--aspect); background-size: 100% 100%;
  grid-template: repeat(var(--rows), 1fr) / repeat(var(--columns), 1fr); border-radius: .2rem; }
.whole i { box-shadow: inset 0 0 0 .5px #8889; position: relative; }
.whole i:hover { outline: 3px solid var(--mark); z-index: 1; }
.two { display: grid; grid-template-columns: minmax(9rem, 20rem) 1fr; gap: 1rem 2rem; align-items: start; }
.two h3 { margin-top: 0; } .wholes { display: grid; gap: .9rem; } .before { width: 40%; }
figcaption { color: var(--soft); font-size: .8125rem; }
@media (max-width: 40rem) { .two { grid-template-columns: 1fr; } }
.patches { display: flex; flex-wrap: wrap; gap: .45rem .4rem; position: relative; padding-bottom: var(--room, 14rem); }
.patch { text-align: center; color: var(--soft); border-radius: .2rem; }
.patch b { display: block; height: 2.1rem; width: calc(2.1rem * clamp(.5, var(--shape), 2)); border-radius: .15rem;
  background-size: calc(100% * var(--columns)) calc(100% * var(--rows)); box-shadow: 0 0 0 1px var(--line); }
.patch small { font-size: .6875rem; font-variant-numeric: tabular-nums; line-height: 1.3; display: block; }
.patch:is(:hover, :focus) { outline: none; color: var(--mark); }
.patch:is(:hover, :focus) b { box-shadow: 0 0 0 3px var(--mark); }
.numbers, .hint { position: absolute; left: 0; right: 0; bottom: 0; height: calc(var(--room, 14rem) - .8rem);
  overflow: auto; text-align: left; color: var(--ink); background: var(--card); font-size: .8125rem;
  border-top: 1px solid var(--line); padding-top: .5rem; }
.hint { color: var(--soft); } .numbers { display: none; z-index: 1; }
.patch:focus .numbers { display: block; } .patch:hover .numbers { display: block; z-index: 2; }
.tables { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin-top: .4rem; }
.tables table { border-spacing: 1px; } .tables caption { text-align: left; color: var(--soft); font-size: .75rem; }
.tables td { min-width: 2.4rem; height: 1.35rem; padding: 0 .2rem; font-size: .6875rem; border-radius: .15rem; }
.three { gap: .3rem .7rem; } .three td { min-width: 1.62rem; font-size: .5625rem; padding: 0; }
.plot { display: grid; grid-template-columns: 4rem 1fr; gap: .4rem .6rem; } .plot + .plot { margin-top: .3rem; }
.wave { width: 100%; height: 4.5rem; display: block; } .wave polygon { fill: var(--mark); stroke: var(--mark);
  stroke-width: .6; vector-effect: non-scaling-stroke; }
.hertz, .clock { position: relative; color: var(--soft); font-size: .75rem; font-variant-numeric: tabular-nums; }
.hertz i { position: absolute; right: 0; font-style: normal; transform: translateY(50%); line-height: 1; }
.clock { height: 1.3rem; } .clock i { position: absolute; font-style: normal; transform: translateX(-50%); }
.clock i:first-child { transform: none; } .clock i:last-child { transform: translateX(-100%); white-space: nowrap; }
.hertz b, .clock b { font-weight: 400; }
.line { display: flex; flex-wrap: wrap; gap: .5rem .3rem; align-items: flex-start; }
.chip { display: inline-grid; text-align: center; font: .8125rem/1.5 ui-monospace, "SF Mono", Menlo, monospace; }
.chip > span { border: 1px solid var(--line); border-radius: .3rem; padding: .1rem .4rem; background: var(--paper);
  white-space: pre; }
.chip b { color: var(--mark); font-weight: 600; padding: .1rem .2rem; white-space: pre; }
.bears > span { border-color: var(--mark); }
.cut { width: min(100%, 13rem); } .cells { display: grid; gap: 2px; aspect-ratio: var(--aspect);
  grid-template: repeat(var(--rows), 1fr) / repeat(var(--columns), 1fr); }
.cells b { background-size: calc(100% * var(--columns)) calc(100% * var(--rows)); }
.cells b:hover { outline: 2px solid var(--mark); }
.cut small { display: block; color: var(--soft); font-size: .75rem; line-height: 1.35;
  margin-top: .3rem; }
"""
