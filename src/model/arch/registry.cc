// SPDX-License-Identifier: Apache-2.0
//
// The table of architectures, sorted by name.
#include "model/arch/architecture.h"

namespace skein::model {

const Architecture* FindArchitecture(std::string_view name) {
  const Architecture* table[] = {
      &LlamaArchitecture(),
  };
  for (const Architecture* architecture : table) {
    if (architecture->name == name) return architecture;
  }
  return nullptr;
}

std::string_view KnownArchitectures() { return "llama"; }

}  // namespace skein::model
