// @ts-check
// The modules of the pages by page id. A new page has an import and a name here, and its
// description in schema.json.
//   export const page = {about, notAbout, render(el, app) -> cleanup}
// `bare`: it writes its own heading. `inspect(el, app) -> cleanup`: its part of the inspector.
// `parts`: its chapters [{id, title}], chosen by the selection's `lesson`. `free`: it needs no
// model. `alone`: without the inspector.
import {page as attention} from "./pages/attention.js";
import {page as model} from "./pages/card.js";
import {page as compare} from "./pages/compare.js";
import {page as edit} from "./pages/edit.js";
import {page as explain} from "./pages/explain.js";
import {page as exporting} from "./pages/export.js";
import {page as flow} from "./pages/flow.js";
import {page as head} from "./pages/head.js";
import {page as image} from "./pages/image.js";
import {page as learn} from "./pages/learn.js";
import {page as next} from "./pages/next.js";
import {page as tokens} from "./pages/tokens.js";
import {page as train} from "./pages/train.js";
import {described} from "./schema.js";

/**
 * @typedef {{id: string, title: string, needs: string[], python: string[], about: string,
 *   notAbout: string, render: (el: HTMLElement, app: any) => any,
 *   inspect?: (el: HTMLElement, app: any) => (() => void) | void, bare?: boolean, free?: boolean,
 *   alone?: boolean, parts?: {id: string, title: string}[]}} Page
 */

/** @type {Page[]} */
export const pages = described({
  model,
  learn,
  tokens,
  attention,
  head,
  edit,
  flow,
  next,
  explain,
  image,
  compare,
  train,
  export: exporting,
});
