// SPDX-License-Identifier: Apache-2.0
#include "common_options.h"

#include "model_cache.h"

namespace skein::app {
namespace {

constexpr double kTokensMax = 1 << 24;

}  // namespace

void OutputOptions::Describe(FieldList& fields) {
  fields.Group("Output");
  fields.Add("json", "", &json, "the result, and errors too, as JSON");
  fields.Add("quiet", "", &quiet, "nothing on standard error but errors");
  fields.Add("log-level", "LEVEL", &log_level, "what is told").OneOf({"error", "warning", "info", "debug"});
  fields.Add("log-format", "FORMAT", &log_format, "how it is told").OneOf({"text", "json"});
  fields.Add("config", "FILE", &config, "a TOML file with these names as keys");
}

void MachineOptions::Describe(FieldList& fields) {
  fields.Group("Machine");
  fields.Add("threads", "N", &engine.threads, "threads that compute [the cores given to this process]")
      .Range(1, 1024)
      .CalledElsewhere({"t"});
  fields.Add("arithmetic", "NAME", &engine.arithmetic, "what is rounded where")
      .OneOf({"auto", "int8g32", "bf16t", "bf16p", "exact"});
  fields.Add("exact", "", &exact, "the same as --arithmetic exact: fp32 everywhere, weights as stored");
  fields.Add("kernels", "NAME", &engine.kernels, "with which instructions")
      .OneOf({"auto", "amx", "avx512vnni", "avx2", "ref"});
  fields.Add("kv-dtype", "TYPE", &engine.kv_dtype, "type of the KV cache; f32 goes with exact")
      .OneOf({"auto", "bf16", "int8", "fp8", "f32"})
      .CalledElsewhere({"kv-cache-dtype", "cache-type-k", "cache-type-v", "ctk", "ctv"});
  fields.Add("context", "N", &engine.context, "longest sequence [the model's, or what memory holds]")
      .Range(1, kTokensMax)
      .CalledElsewhere({"max-model-len", "ctx-size", "c"});
  fields.Add("packed-cache", "DIR", &engine.packed_cache, "keeps packed weights there for the next load; auto: in the model cache");
  fields.Add("max-num-batched-tokens", "N", &engine.step_tokens, "tokens computed in one step, at most [512]")
      .Range(1, 65536)
      .CalledElsewhere({"batch-size", "ubatch-size", "b", "ub"});
  fields.Group("Ranks");
  fields.Add("tensor", "N", &engine.tensor, "cuts heads, columns and vocabulary over N ranks")
      .Range(1, 64)
      .CalledElsewhere({"tensor-parallel-size", "tp"});
  fields.Add("pipe", "N", &engine.pipe, "cuts the layers over N stages of ranks")
      .Range(1, 64)
      .CalledElsewhere({"pipeline-parallel-size", "pp"});
  fields.Add("transport", "NAME", &engine.transport, "threads, processes or an MPI job")
      .OneOf({"threads", "shm", "mpi"});
  fields.Add("hosts", "LIST", &engine.hosts, "hosts that ranks run on: a,b or a:2,b:1");
  fields.Add("control-address", "ADDR", &engine.control_address, "of this host, for ranks of others [on the way to them]");
  fields.Add("remote-program", "PATH", &engine.remote_program, "this program on other hosts [the same path]");
  fields.Add("rank-speeds", "LIST", &engine.rank_speeds, "shares of unlike ranks: 2,1 [all the same]");
  fields.Add("wire", "TYPE", &engine.wire, "type of the numbers between ranks").OneOf({"auto", "fp32", "bf16", "int8"});
  fields.Add("overlap", "WHEN", &engine.overlap, "computing while sums are on the way").OneOf({"auto", "on", "off"}).ForDevelopers();
  fields.Add("deterministic", "MODE", &engine.deterministic, "layout: the same bits on every mesh").OneOf({"off", "layout"});
}

EngineOptions MachineOptions::Resolved() const {
  EngineOptions resolved = engine;
  if (exact) resolved.arithmetic = "exact";
  if (resolved.packed_cache == "auto") resolved.packed_cache = CacheFolder() + "/packed";
  return resolved;
}

void AnswerOptions::Describe(FieldList& fields) {
  fields.Group("Answer");
  SamplingOptions& sampling = generate.sampling;
  fields.Add("max-tokens", "N", &generate.max_tokens, "tokens of the answer, at most")
      .Range(1, kTokensMax)
      .CalledElsewhere({"predict", "n-predict", "n"});
  fields.Add("temperature", "T", &sampling.temperature, "0 always takes the likeliest token").Range(0, 100).CalledElsewhere({"temp"});
  fields.Add("top-k", "N", &sampling.top_k, "only the N likeliest tokens; 0: all").Range(0, kTokensMax);
  fields.Add("top-p", "P", &sampling.top_p, "only the likeliest tokens that together reach P").Range(0, 1);
  fields.Add("min-p", "P", &sampling.min_p, "only tokens at least P times as likely as the likeliest").Range(0, 1);
  fields.Add("repeat-penalty", "R", &sampling.repeat_penalty, "above 1: tokens seen become less likely").Range(0.01, 100);
  fields.Add("seed", "N", &sampling.seed, "the same seed gives the same answer");
  fields.Add("stop", "TEXT", &generate.stop, "a text that ends the answer; may be repeated");
  fields.Add("ignore-eos", "", &generate.ignore_stop_tokens, "goes on after the model's end-of-answer token");
}

}  // namespace skein::app
