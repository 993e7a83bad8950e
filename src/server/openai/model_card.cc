// SPDX-License-Identifier: Apache-2.0
#include "server/openai/model_card.h"

#include <algorithm>

namespace skein::server {

bool ModelCard::Serves(std::string_view name) const {
  return name == id || std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

}  // namespace skein::server
