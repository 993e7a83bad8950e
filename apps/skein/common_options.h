// SPDX-License-Identifier: Apache-2.0
//
// Options that several commands share: how they speak, and how a model is run.
#pragma once

#include <string>

#include "base/options.h"
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

struct AnswerOptions {
  GenerateOptions generate;

  void Describe(FieldList& fields);
};

}  // namespace skein::app
