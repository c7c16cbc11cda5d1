// @ts-check
// The page of a server: pages, a shell around them, requests over HTTP.
import {pages} from "./contents.js";
import {mount} from "./shell.js";
import {makeWire, overHttp} from "./wire.js";

mount(document.body, {pages, wire: makeWire(overHttp())});
