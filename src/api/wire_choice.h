// SPDX-License-Identifier: Apache-2.0
//
// `--wire auto`: ranks of a host talk in fp32, since memory is fast; ranks of different hosts in bf16, or in int8 where the network is so slow
// that sums would take longer than what they are sums of.
//
// Thread rule: as Communicator.
#pragma once

#include "base/status.h"
#include "comm/communicator.h"

namespace skein::api {

// Measures the way from the first host of the group to the next, and tells all members. All of them call it at once. A group on one host
// measures nothing. Errors: kUnavailable.
Result<comm::WireTypes> ChooseWire(comm::Communicator& everyone);

// What a network of so many bits a second is good for.
comm::WireType OuterWireFor(double bits_per_second);

}  // namespace skein::api
