// SPDX-License-Identifier: Apache-2.0
//
// Options of `skein mesh check` and `skein mesh top`.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "common_options.h"
#include "context.h"

namespace skein::app {

struct MeshCheckOptions {
  std::string hosts;      // comma-separated
  std::string transport = "all";
  std::string agent;      // in place of ssh
  std::string remote_program;  // this program on the hosts
  int patience_s = 5;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunMeshCheck(const MeshCheckOptions& options, Context& context);

struct MeshTopOptions {
  std::string url = "http://127.0.0.1:8000", api_key_file, ca_file;
  bool insecure = false, once = false;
  int interval_ms = 1000;
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunMeshTop(const MeshTopOptions& options, Context& context);

}  // namespace skein::app
