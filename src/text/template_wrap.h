// SPDX-License-Identifier: Apache-2.0
//
// Centring and wrapping of text, as Python's str.center and textwrap.wrap do.
#pragma once

#include <cstdint>
#include <vector>

#include "text/template_run.h"

namespace skein::text::templates {

Text CenterText(Run& run, const Text& text, std::int64_t width, const Text& fill);

struct WrapOptions {
  std::int64_t width = 79;  // characters; fails when not positive
  bool break_long_words = true;
  bool break_on_hyphens = true;
};
// The lines of one paragraph, without blanks at their ends.
std::vector<Text> WrapText(Run& run, const Text& paragraph, const WrapOptions& options);

}  // namespace skein::text::templates
