// SPDX-License-Identifier: Apache-2.0
//
// Courier forms sums over ranks on a thread of its own, in the order in which they were posted, while workers compute: in a step with many tokens what is
// on the way is hidden behind what is computed meanwhile. Every rank of a group posts the same sums in the same order.
//
// Thread rule: Post and Wait are for one thread (worker 0). Between a Post and the Wait for it nobody else uses the communicator.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "comm/communicator.h"

namespace skein::model {

class Courier {
 public:
  // `ranks` outlives it.
  explicit Courier(comm::Communicator& ranks);
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Returns the number of this sum. Requires: fewer than kWaiting sums have not been waited for.
  std::uint64_t Post(const comm::Reduction& sum);
  // Until sum `number` and those before it are formed. Errors: as Communicator::AllReduce; of the first that failed, for good.
  Status Wait(std::uint64_t number);

 private:
  static constexpr std::size_t kWaiting = 4;
  void Run();

  comm::Communicator& ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  std::array<comm::Reduction, kWaiting> sums_;  // number n stands at n % kWaiting
  std::uint64_t posted_ = 0, done_ = 0;
  Status status_;
  bool leaving_ = false;

  std::thread thread_;
};

}  // namespace skein::model
