// SPDX-License-Identifier: Apache-2.0
//
// Timer keeps a delayed call wanted. When its last copy is let go of, the call is off and its memory is free at once:
// a request that may last a day and is answered in a second leaves nothing behind.
//
// Thread rule: made, copied and let go of by the I/O thread; it goes before the HttpServer that made it.
#pragma once

#include <memory>

namespace skein::server {

using Timer = std::shared_ptr<void>;

}  // namespace skein::server
