// SPDX-License-Identifier: Apache-2.0
//
// The table of routes: one line each, with who may use it.
#pragma once

#include <functional>
#include <string>

#include "engine/engine_client.h"
#include "server/http/router.h"
#include "server/openai/readiness.h"
#include "server/openai/serving.h"

namespace skein::server {

// What routes need besides Serving.
struct RouteContext {
  Serving& serving;
  Readiness& readiness;
  std::string version;                          // body of /version
  std::function<ServerGauges()> gauges;         // of the moment, for /metrics
};

// `context` outlives the router.
Router MakeRouter(RouteContext& context);

}  // namespace skein::server
