// SPDX-License-Identifier: Apache-2.0
//
// Options that several commands share: how they speak, and how a model is run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "skein/options.h"

namespace skein::app {

struct OutputOptions {
  bool json = false;
  bool quiet = false;
  std::string log_level = "warning";
  std::string log_format = "text";
  std::string config;

  void Describe(FieldList& fields);
};

struct MachineOptions {
  EngineOptions engine;
  bool exact = false;

  void Describe(FieldList& fields);
  // What the engine is loaded with.
  EngineOptions Resolved() const;
};

struct ModelTest;
// What `bench model` and `bench ranks` measure of a model: every combination (bench_model_measure.h).
struct ModelTestOptions {
  std::string model = {};
  std::vector<int> prompts = {512}, generate = {128}, depths = {0}, batches = {1};
  void Describe(FieldList& fields);
  // Those without tokens are left out. Errors: kInvalidArgument when none is left; `command` needs one.
  Result<std::vector<ModelTest>> Tests(std::string_view command) const;
};

struct AnswerOptions {
  GenerateOptions generate;

  void Describe(FieldList& fields);
};

}  // namespace skein::app
