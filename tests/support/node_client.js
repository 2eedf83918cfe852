// Drives the recipe for Node.js of deploy/CLIENTS.md: several writers in one process, a line for each call.
// Usage: node node_client.js RECIPE.js PROTO_FOLDER ADDRESSES PREFIX [CA KEY CERT]; ends at the end of its input.
"use strict";
const fs = require("fs");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [recipe, protos, addresses, prefix, ...pems] = process.argv.slice(2);
const { leaderCalls } = require(recipe);
const { ckpt } = grpc.loadPackageDefinition(loader.loadSync("ckpt/v1/broker.proto", { includeDirs: [protos], keepCase: true }));
const credentials = pems.length ? grpc.credentials.createSsl(...pems.map((file) => fs.readFileSync(file))) : undefined;
const call = leaderCalls(ckpt.v1.BrokerService, addresses.split(","), credentials, credentials && "demo");
const WRITERS = 8, PAUSE_MS = 10;
let running = true;

async function timed(kind, method, request) {
  const began = Date.now();
  let code = 0, text = "";
  try {
    await call(method, request, 10000);
  } catch (error) {
    [code, text] = [error.code ?? -1, error.details ?? String(error.stack)];
  }
  console.log(JSON.stringify({ kind, began: began / 1000, ended: Date.now() / 1000, code, text }));
}

async function writer(number) {
  for (let i = 0; running; i++) {
    await timed("write", "ReportQueue", { request_id: `${prefix}-${number}-${i}`, vcluster: "hpc" });
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
}

// A request that the rules refuse, asked for over standard input by the allocation's id.
require("readline").createInterface({ input: process.stdin })
  .on("line", (id) => timed("refusal", "RequestCheckpoint", { request_id: `${prefix}-${Math.random()}`, allocation_id: id }))
  .on("close", () => { running = false; });
Promise.all([...Array(WRITERS).keys()].map(writer)).then(() => process.exit(0));
