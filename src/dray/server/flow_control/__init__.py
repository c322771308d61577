"""Priority and fairness: FlowSchemas tell requests apart, PriorityLevelConfigurations say how many work at once."""
