"""The state of node groups that is kept between passes."""
