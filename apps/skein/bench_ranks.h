// SPDX-License-Identifier: Apache-2.0
//
// Options of `skein bench ranks`.
#pragma once

#include "base/options.h"
#include "base/status.h"
#include "common_options.h"
#include "context.h"

namespace skein::app {

struct BenchRanksOptions {
  ModelTestOptions tests{.generate = {64}, .batches = {1, 8}};
  int rounds = 5;
  MachineOptions machine;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunBenchRanks(const BenchRanksOptions& options, Context& context);

}  // namespace skein::app
