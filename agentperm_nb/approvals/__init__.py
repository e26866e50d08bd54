"""Who answers? Requests to a person, the answers, and the desk where they wait."""
