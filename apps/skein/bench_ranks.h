// SPDX-License-Identifier: Apache-2.0
//
// Options of `skein bench ranks`.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "common_options.h"
#include "context.h"

namespace skein::app {

struct BenchRanksOptions {
  std::string model;
  std::vector<int> prompts{512}, generate{64}, depths{0}, batches{1, 8};
  int rounds = 5;
  MachineOptions machine;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunBenchRanks(const BenchRanksOptions& options, Context& context);

}  // namespace skein::app
