// SPDX-License-Identifier: Apache-2.0
//
// Options of `skein bench comm`.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "common_options.h"
#include "context.h"

namespace skein::app {

struct BenchCommOptions {
  int ranks = 2, hosts = 1, rounds = 3;
  std::string transport = "all", wire = "all", algorithm = "all";
  std::vector<int> sizes{1024, 2048, 4096, 8192, 16384, 32768, 65536, 262144, 1048576};
  bool csv = false;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunBenchComm(const BenchCommOptions& options, Context& context);

}  // namespace skein::app
