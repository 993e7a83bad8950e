// SPDX-License-Identifier: Apache-2.0
//
// Router knows the routes: which method and path go to which handler, and who may use them. A Route says its scope or
// does not compile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skein::server {

class Exchange;
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

// Who may use a route once keys are set. Without keys kOpen and kUser are for everybody, and kAdmin for nobody.
enum class Scope { kOpen, kUser, kAdmin };

struct Route {
  // `path` is exact, or ends in `/{id}`, which stands for the rest of the path, slashes too, and is not empty. The
  // handler runs on the I/O thread and must be short. HEAD goes to GET's.
  Route(std::string_view route_method, std::string_view route_path, Scope route_scope, Handler route_handler)
      : method(route_method), path(route_path), scope(route_scope), handler(std::move(route_handler)) {}

  std::string method;
  std::string path;
  Scope scope;
  Handler handler;
};

class Router {
 public:
  struct Match {
    const Route* route = nullptr;  // null: none has this method and path
    std::string rest;              // what stood for {id}
    std::string allow;             // the methods that the path has: empty when there is no such path
  };

  void Add(Route route) { routes_.push_back(std::move(route)); }
  Match Find(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace skein::server
