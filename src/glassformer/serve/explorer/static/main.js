// @ts-check
// The page that a server gives: pages, a shell around them, questions over HTTP.
import {pages} from "./contents.js";
import {mount} from "./shell.js";
import {makeWire, overHttp} from "./wire.js";

mount(document.body, {pages, wire: makeWire(overHttp())});
