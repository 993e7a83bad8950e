// SPDX-License-Identifier: Apache-2.0
//
// Formatting by patterns: '%5.2f' % value, '{:>5}'.format(value), strftime.
#pragma once

#include <string>
#include <string_view>

#include "text/template_run.h"

namespace skein::text::templates {

// pattern % values; `values` is a tuple of them, a dict for %(name)s, or one value.
Value FormatPercent(Run& run, const Value& pattern, const Value& values);
// pattern.format(…).
Value FormatBraces(Run& run, const Text& pattern, const Arguments& arguments);
// `now` (ISO 8601, no zone) written by strftime's codes, in English; fails the run when `now` is not a time.
std::string FormatTime(Run& run, std::string_view now, std::string_view pattern);

}  // namespace skein::text::templates
