// SPDX-License-Identifier: Apache-2.0
//
// Admission counts the requests that are inside the server: so many may run at once, so many more may wait in order of
// readiness, and whoever comes beyond that is turned away at once. A request takes a Place when it comes (it may still
// have to be read and tokenised), waits with it until it may run, and gives it back by destroying it, on whichever path
// it ends.
//
// Owned and called by the I/O thread only. Outlives its places.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <optional>

namespace skein::server {

class Admission {
 private:
  struct Entry {
    enum class State { kReading, kWaiting, kRunning };
    State state = State::kReading;
    std::function<void()> granted;
  };

 public:
  class Place {
   public:
    Place(Place&& other) noexcept : admission_(other.admission_), entry_(other.entry_) { other.admission_ = nullptr; }
    Place& operator=(Place&& other) noexcept;
    ~Place() { Release(); }

   private:
    friend class Admission;
    Place(Admission& admission, std::list<Entry>::iterator entry) : admission_(&admission), entry_(entry) {}
    void Release();

    Admission* admission_;
    std::list<Entry>::iterator entry_;
  };

  // Requires: running_max > 0.
  Admission(std::size_t running_max, std::size_t waiting_max) : running_max_(running_max), waiting_max_(waiting_max) {}

  // A place, or nothing when all are taken.
  std::optional<Place> TryEnter();
  // Calls `granted` once the request may run: at once, or when others have gone. Requires: not called before for this
  // place. `granted` may destroy the place.
  void Await(Place& place, std::function<void()> granted);

  // Nobody is granted anything from now on.
  void Close() { closed_ = true; }

  std::size_t running() const { return running_; }
  std::size_t waiting() const { return entries_.size() - running_; }  // those being read included

 private:
  void Grant();

  const std::size_t running_max_, waiting_max_;
  std::size_t running_ = 0;
  bool granting_ = false;
  bool closed_ = false;
  std::list<Entry> entries_;
  std::list<std::list<Entry>::iterator> ready_;  // those that wait to run, in order
};

}  // namespace skein::server
