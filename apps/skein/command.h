// SPDX-License-Identifier: Apache-2.0
//
// Command is one subcommand of the program: its words, its options and the function that runs it. The table of all
// of them is in commands.cc; main.cc finds one, fills its options and calls it.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "base/options.h"
#include "base/status.h"
#include "context.h"

namespace skein::app {

// Fills the fields from the command line, or shows them. False: everything was said, do not run.
using FillFields = std::function<Result<bool>(FieldList& fields)>;

struct Command {
  std::string_view name;     // "run", "bench model"
  std::string_view usage;    // "MODEL [PROMPT]"
  std::string_view summary;  // one line, shown in the overview
  std::string_view notes;    // lines shown under the options; may be empty
  std::string_view group;    // heading in the overview
  Status (*invoke)(const FillFields& fill, Context& context);
};

// All commands, in the order of the overview.
std::span<const Command> Commands();

// The invoke function of a command with an options struct that has `void Describe(FieldList&)`, and, to prepare the
// context, a member `output` of type OutputOptions.
template <typename Options, Status (*Run)(const Options& options, Context& context)>
Status Invoke(const FillFields& fill, Context& context) {
  Options options;
  FieldList fields;
  options.Describe(fields);
  SKEIN_ASSIGN_OR_RETURN(const bool go_on, fill(fields));
  if (!go_on) return OkStatus();
  context.Prepare(options.output);
  return Run(options, context);
}

}  // namespace skein::app
