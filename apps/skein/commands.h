// SPDX-License-Identifier: Apache-2.0
//
// The options of every command and the functions that run them, one file each: run.cc, chat.cc, … A command that is
// new needs its struct here, its file, and a line in commands.cc.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "common_options.h"
#include "context.h"

namespace skein::app {

struct RunOptions {
  std::string model, prompt;
  std::string prompt_file, prompt_tokens, system;
  bool raw = false;
  int logprobs = 0;
  std::string profile;
  AnswerOptions answer;
  MachineOptions machine;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunRun(const RunOptions& options, Context& context);

struct ChatOptions {
  std::string model, system;
  AnswerOptions answer;
  MachineOptions machine;
  OutputOptions output;
  ChatOptions() { answer.generate.max_tokens = 1024; }
  void Describe(FieldList& fields);
};
Status RunChat(const ChatOptions& options, Context& context);

struct ServeOptions {
  std::string model;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::vector<std::string> served_model_name, allowed_host, allowed_origin;
  std::string api_key_file, tls_cert, tls_key;
  int max_concurrency = 256, max_queue = 512, max_num_seqs = 64;
  std::uint64_t kv_memory = 0;
  std::string policy = "fcfs";
  bool no_prefix_cache = false, log_prompts = false, simulated = false;
  std::string otlp_endpoint;
  MachineOptions machine;
  OutputOptions output;
  ServeOptions() { output.log_level = "info"; }
  void Describe(FieldList& fields);
};
Status RunServe(const ServeOptions& options, Context& context);

struct InspectOptions {
  std::string model;
  MachineOptions machine;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunInspect(const InspectOptions& options, Context& context);

struct TokenizeOptions {
  std::string model, text;
  bool jsonl = false, no_special = false, parse_special = false;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunTokenize(const TokenizeOptions& options, Context& context);

struct DetokenizeOptions {
  std::string model, tokens;
  bool jsonl = false, keep_special = false;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunDetokenize(const DetokenizeOptions& options, Context& context);

struct TemplateOptions {
  std::string model, file;
  bool jsonl = false, expressions = false;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunTemplate(const TemplateOptions& options, Context& context);

struct EvalLogitsOptions {
  std::string model, tokens, out;
  MachineOptions machine;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunEvalLogits(const EvalLogitsOptions& options, Context& context);

struct EvalPerplexityOptions {
  std::string model, text;
  MachineOptions machine;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunEvalPerplexity(const EvalPerplexityOptions& options, Context& context);

struct EvalChoicesOptions {
  std::string model, jsonl;
  MachineOptions machine;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunEvalChoices(const EvalChoicesOptions& options, Context& context);

struct BenchModelOptions {
  ModelTestOptions tests;
  int repetitions = 5;
  bool csv = false, markdown = false;
  std::string profile;
  MachineOptions machine;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunBenchModel(const BenchModelOptions& options, Context& context);

struct BenchKernelsOptions {
  std::string shape = "2048x8192";
  EngineOptions engine;  // threads and kernels
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunBenchKernels(const BenchKernelsOptions& options, Context& context);

struct MakeModelCommandOptions {
  std::string shape = "135m", format = "Q4_0", out;
  std::uint64_t seed = 1;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunMakeModel(const MakeModelCommandOptions& options, Context& context);

struct ModelsOptions {
  std::string path;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunModels(const ModelsOptions& options, Context& context);

struct PullOptions {
  std::string name;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunPull(const PullOptions& options, Context& context);

struct DoctorOptions {
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunDoctor(const DoctorOptions& options, Context& context);

}  // namespace skein::app
